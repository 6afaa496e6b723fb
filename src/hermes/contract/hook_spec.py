"""The form of a hook as data, and of the pairs that hooks make."""

from __future__ import annotations

from typing import NamedTuple

from hermes.contract.fields import Fields

IGNORED = "Ignored."


class HookSpec(NamedTuple):
    """One hook as data."""

    name: str
    when: str
    fields: Fields
    returns: str = IGNORED
    #: The field a callback may change in place to rewrite the call. Every other change is isolated.
    live: str = ""
    #: Whether it is always delivered behind the turn, in order, because nothing may wait for it.
    is_queued: bool = False
    #: The field whose values are joined while a callback is busy.
    joined: str = ""
    #: Whether only code can answer it: a hook command has no way to.
    needs_code: bool = False

    @property
    def answers(self) -> bool:
        """Whether a return value changes what happens."""
        return self.returns != IGNORED


class Pair(NamedTuple):
    """A start that every path closes with exactly one of ``ends``, both carrying the same ``key`` fields."""

    start: str
    ends: tuple[str, ...]
    key: tuple[str, ...]
    #: Whether a callback may get the start again before its end: it is asked anew about what another one changed.
    may_repeat: bool = False
