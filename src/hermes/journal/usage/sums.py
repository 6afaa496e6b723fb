"""Sums of what model calls took, for budgets: of a turn, a session with its children, a day, a plugin, a principal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.journal.history.rows import FAMILY
from hermes.journal.store.connection import JournalConnection, placeholders
from hermes.journal.turns.steps import NOT_ASIDE, PLUGIN_KEY

if TYPE_CHECKING:
    from hermes.journal.store.port import Store

_COLUMNS = (
    "session_id, api_request_id, turn_id, key, status, started_at, duration, cost_usd, "
    "coalesce(input_tokens, 0) + coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0) "
    "+ coalesce(output_tokens, 0) AS tokens"
)
_SUM = (
    "SELECT coalesce(sum(cost_usd), 0.0), coalesce(sum(tokens), 0), coalesce(sum(duration), 0.0), count(*) FROM "
    f"(SELECT {_COLUMNS} FROM model_calls WHERE {{condition}} UNION ALL "
    f"SELECT {_COLUMNS} FROM outside_calls WHERE {{condition}}) AS calls WHERE status <> 'crashed'"
)
_OF_FAMILY = "session_id IN (SELECT id FROM family)"
_OF_TURN = (
    "turn_id = :id OR (session_id <> :session AND session_id IN (SELECT id FROM family) "
    "AND started_at >= (SELECT started_at FROM turns WHERE id = :id))"
)
_OF_PRINCIPAL = "session_id IN (SELECT id FROM sessions WHERE principal = :id) AND started_at >= :since"


class Spent(NamedTuple):
    """Dollars, tokens, seconds of model calls, and their number."""

    usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    calls: int = 0

    def plus(self, other: Spent) -> Spent:
        """Both together."""
        tokens, calls = self.tokens + other.tokens, self.calls + other.calls
        return Spent(self.usd + other.usd, tokens, self.seconds + other.seconds, calls)

    def minus(self, other: Spent) -> Spent:
        """What is left without the other."""
        tokens, calls = self.tokens - other.tokens, self.calls - other.calls
        return Spent(self.usd - other.usd, tokens, self.seconds - other.seconds, calls)


def spent_in_turn(store: Store, session_id: str, turn_id: str) -> Spent:
    """What a turn has taken, with the children that were started in it."""
    family = FAMILY.replace(":id", ":session")
    return _sum(store, family, _OF_TURN, {"id": turn_id, "session": session_id})


def spent_in_session(store: Store, session_id: str) -> Spent:
    """What a session has taken, with its children."""
    return _sum(store, FAMILY, _OF_FAMILY, {"id": session_id})


def spent_today(store: Store, *, plugin: str = "", principal: str = "", own: frozenset[str] = frozenset()) -> SharedSum:
    """What was spent since midnight, by all processes of the home: in all, by a plugin, or for a principal.

    ``own`` are calls whose rows may not be written yet; those that are counted come back with the sum.
    """
    condition, values = "started_at >= :since", {"since": midnight(), "id": principal}
    if plugin:
        condition, values["id"] = "key = :id AND started_at >= :since", PLUGIN_KEY + plugin
    elif principal:
        condition = _OF_PRINCIPAL

    def read(connection: JournalConnection) -> SharedSum:
        # First the rows, then the sum: a row that is written in between counts twice for a moment, never not at all.
        written: set[str] = set()
        for table in ("model_calls", "outside_calls") if own else ():
            # Those of yesterday too: they are written, and count no more.
            query = f"SELECT api_request_id FROM {table} WHERE api_request_id IN ({placeholders(tuple(own))})"
            written.update(row[0] for row in connection.execute(query, tuple(own)))
        spent = Spent(*connection.execute(_SUM.format(condition=condition), values).fetchone())
        return SharedSum(spent, frozenset(written))

    return store.read(read) if store.exists() else SharedSum(Spent(), frozenset())


class SharedSum(NamedTuple):
    """A sum over all processes, and which of one's own calls it has."""

    spent: Spent
    written: frozenset[str]


def midnight() -> float:
    """The beginning of this day, in the local time."""
    now = time.localtime()
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))


def _sum(store: Store, before: str, condition: str, values: dict[str, Any]) -> Spent:
    if not store.exists():
        return Spent()
    query = before + _SUM.format(condition=condition)
    return store.read(lambda connection: Spent(*connection.execute(query, values).fetchone()))


def turn_sums(connection: JournalConnection, session_id: str, turn_id: str) -> tuple[Any, ...]:
    """The tokens that a turn used, its cost and its calls, in the order of the fields of a usage."""
    query = (
        "SELECT coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cache_read_tokens), 0), "
        "coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0), sum(cost_usd), count(*) "
        "FROM model_calls WHERE session_id = ? AND turn_id = ?"
    )
    return connection.execute(query, (session_id, turn_id)).fetchone()


def turn_endpoint(connection: JournalConnection, session_id: str, turn_id: str) -> tuple[str, str]:
    """The provider and the model that a turn asked last; empty when it asked none."""
    query = (
        f"SELECT provider, model FROM model_calls WHERE session_id = ? AND turn_id = ? AND {NOT_ASIDE} "
        "ORDER BY started_at DESC LIMIT 1"
    )
    return connection.execute(query, (session_id, turn_id)).fetchone() or ("", "")
