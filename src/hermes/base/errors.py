"""The errors of the runtime. Their messages are for the user who has to act on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

#: Letters that make a part of a name more than an accident.
_SHORTEST_PART = 3


class HermesError(Exception):
    """Base of all expected failures; the command line prints it as one line and exits 1."""


class Interrupted(BaseException):
    """The running work was cancelled.

    A ``BaseException``, so that ``except Exception`` in a plugin or a tool cannot swallow it.
    """

    def __init__(self, reason: str = "interrupted") -> None:
        super().__init__(reason)
        self.reason = reason


class TurnSuspended(BaseException):
    """The answer to a question will come later: the turn stops here, unfinished, and continues once it is there.

    ``deadline`` says until when (seconds since the epoch); None waits for ever. A ``BaseException`` for the same
    reason as ``Interrupted``.
    """

    def __init__(self, deadline: float | None = None) -> None:
        super().__init__(deadline)
        self.deadline = deadline


class ConfigError(HermesError):
    """The configuration cannot be used as written."""


class BudgetExceeded(HermesError):
    """A model call does not fit into a budget."""


class NotConfigured(ConfigError):
    """No model is set up."""


class CredentialError(HermesError):
    """A stored credential cannot be found, used or renewed."""


class PluginError(HermesError):
    """A plugin cannot be found, loaded or registered."""


class JournalError(HermesError):
    """The journal cannot be read or written."""


class JournalCorrupt(JournalError):
    """The database file is damaged. It is left untouched."""


class JournalTooNew(JournalError):
    """The database was written by a newer program."""


class JournalUnavailable(JournalError):
    """The database cannot be reached at the moment. Nothing is wrong with what is in it."""


class CommitUnknown(JournalUnavailable):
    """The connection broke during a commit, and whether it was made could not be found out."""


class SessionNotFound(JournalError):
    """No session has that id."""


class SessionBusy(JournalError):
    """Another live runner holds the session."""


class UnfinishedTurn(JournalError):
    """An earlier turn of the session has to be finished first."""


class QueueFull(HermesError):
    """Too many turns wait already: of everyone, or of this caller. To be sent again later."""


class LeaseLost(JournalError):
    """This runner's fencing token (epoch) is outdated: another one has the session. Nothing more may be written."""


FailureReason = Literal[
    "rate_limit",
    "overloaded",
    "server_error",
    "timeout",
    "connection",
    "context_too_long",
    "content_policy",
    "auth",
    "billing",
    "bad_request",
    "model_missing",
    "malformed",
    "truncated",
]

RETRYABLE: frozenset[FailureReason] = frozenset(
    {"rate_limit", "overloaded", "server_error", "timeout", "connection", "malformed", "truncated"}
)


class Recovery(NamedTuple):
    """How a plugin wants a failure to be dealt with; what is None follows from its class."""

    #: Another key of the same provider is tried.
    rotate: bool | None = None
    #: Another endpoint takes over.
    fall_back: bool | None = None
    #: The conversation is compacted and sent again.
    compress: bool | None = None


class ProviderError(HermesError):
    """A request to a model failed. ``reason`` is the class of failure, decided from status and structure."""

    def __init__(
        self,
        message: str,
        *,
        reason: FailureReason,
        status_code: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.reason: FailureReason = reason
        self.status_code = status_code
        self.retry_after = retry_after
        self.retryable = reason in RETRYABLE
        self.recovery = Recovery()
        #: What the server said: the first of its codes, and its error object.
        self.code = ""
        self.body: dict[str, Any] | None = None

    @property
    def asks_for_room(self) -> bool:
        """Whether the conversation has to become shorter."""
        wanted = self.recovery.compress
        return self.reason == "context_too_long" if wanted is None else wanted


def did_you_mean(
    name: str, known: Iterable[str], *, otherwise: str | None = None, then: str = "", most: int = 50
) -> str:
    """The rest of a sentence about an unknown name: ``; did you mean 'x'?``, or ``; there are: x, y, z``.

    ``otherwise`` takes the place of the list, which has at most ``most`` names; empty leaves it out. ``then`` is a
    sentence to follow. Like the messages of all errors, the text has no full stop at its end.
    """
    names = list(known)
    close = nearest(name, names)
    if close:
        clause = f"; did you mean {close!r}?"
    else:
        other = _list_of(names, most) if otherwise is None else otherwise
        clause = f"; {other}" if other else ""
    if not then:
        return clause
    return f"{clause} {then}" if close else f"{clause}. {then}"


def _list_of(names: list[str], most: int) -> str:
    if not names:
        return "there are none"
    if len(names) == 1:
        return f"there is only {names[0]}"
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"there are: {', '.join(names[:most])}{more}"


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant; empty when none is near. Two swapped letters are one mistake.

    Capital letters do not count. A name that begins with what was written comes first: it was cut short. When none is
    near, it is the shortest name with the written one in it.
    """
    from difflib import get_close_matches  # only a mistake needs it

    wanted = name.lower()
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(wanted, by_lower, n=5)
    rank = {one: (not one.startswith(wanted), _edits(wanted, one), abs(len(one) - len(wanted))) for one in close}
    best = min(close, key=rank.__getitem__, default="")
    if not best.startswith(wanted) and 2 * _edits(wanted, best) > max(len(wanted), len(best)):
        best = ""
    if not best and len(wanted) >= _SHORTEST_PART:
        best = min((one for one in by_lower if wanted in one), key=len, default="")
    return by_lower.get(best, "")


def _edits(one: str, other: str) -> int:
    """Letters to add, leave out, replace or swap with their neighbour to make one name of the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
