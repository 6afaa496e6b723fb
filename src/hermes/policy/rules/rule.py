"""A rule: its name, what it is about, and how it recognises a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes.policy.call import Call

Predicate = Callable[[Call], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """What is asked about, or refused when ``hardline``.

    Each check goes with the programs it is tried on; one without programs is tried on whatever redirects its output
    into a file. A rule without checks is reported by the reader of command lines itself, being about more than a call.
    """

    key: str
    description: str
    checks: tuple[tuple[frozenset[str], Predicate], ...] = ()
    hardline: bool = False


#: For checks of redirections.
ANY: frozenset[str] = frozenset()
