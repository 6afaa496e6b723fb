"""A question under one id, stored before it is shown and answered in the journal before the answer is used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

from hermes.errors import JournalError, TurnSuspended
from hermes.journal.questions import QuestionRow, Questions

#: The answer of a model that has none; the question stays open.
UNSURE = "smart_unsure"


class StoredQuestion:
    """Asks one party after another until there is an answer. ``earlier`` is the row of a run that was cut off."""

    def __init__(self, questions: Questions, row: QuestionRow, earlier: QuestionRow | None = None) -> None:
        self.id = row.id if earlier is None else earlier.id
        self._questions = questions
        self._row = row
        #: None until it was asked; False when there is no session that the row could belong to.
        self._is_stored: bool | None = None if earlier is None else True

    @property
    def stored_id(self) -> str:
        """The id of the row that holds the answer; empty when there is none."""
        return self.id if self._is_stored else ""

    def ask(self, surface: str, ask: Callable[[], tuple[str, str]]) -> tuple[str, str]:
        """Ask there; returns answer and reason. Another party may have answered first: then that answer counts."""
        if self._is_stored:
            self._questions.ask_again(self.id, surface)
        elif self._is_stored is None:
            self._is_stored = self._questions.ask(replace(self._row, surface=surface))
        try:
            return self._store_answer(*ask())
        except TurnSuspended as suspended:
            if self._is_stored:
                self._questions.defer(self.id, suspended.deadline)
            raise
        except BaseException as error:
            with contextlib.suppress(JournalError):
                self.withdraw(f"cut off: {type(error).__name__}")
            raise

    def withdraw(self, reason: str) -> None:
        """Close the question without an answer."""
        if self._is_stored:
            self._questions.withdraw(self.id, reason)

    def _store_answer(self, answer: str, reason: str) -> tuple[str, str]:
        if answer == UNSURE or not self._is_stored:
            return answer, reason
        row = self._questions.answer(self.id, answer, reason)
        return "deny" if row.answer is None else row.answer, row.reason
