"""A rule: key, description, and the predicates that match calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hermes.policy.call import Call

Predicate = Callable[[Call], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """Needs approval, or is blocked when ``hardline``.

    Each check has the programs it applies to; a check without programs applies to every call that redirects its output
    to a file. A rule without checks is reported by the shell parser itself, because it is about more than one call.
    """

    key: str
    description: str
    checks: tuple[tuple[frozenset[str], Predicate], ...] = ()
    hardline: bool = False


#: For checks of redirections.
ANY: frozenset[str] = frozenset()
