"""Step budget: bounds the work that one text may cost the analysis."""

from __future__ import annotations

#: Enough for a here-document of the longest length, and for a few thousand calls.
STEPS = 400_000


class TooComplex(Exception):
    """The command line exceeds the limits of the analysis."""


class StepBudget:
    """Counts the steps of one analysis. A step is about a microsecond of work: a few characters, part of a word."""

    def __init__(self, steps: int = STEPS) -> None:
        self._allowed = steps
        self.spent = 0

    def spend(self, steps: int) -> None:
        """Count steps; raises ``TooComplex`` when there are none left."""
        self.spent += steps
        if self.spent > self._allowed:
            self.spent = self._allowed  # what was to be done is not done
            raise TooComplex
