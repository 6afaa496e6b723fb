"""One turn in the journal: named steps that run once and are replayed afterwards."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hermes.errors import JournalError, LeaseLost, SessionBusy, SessionNotFound
from hermes.journal.bodies import message_text, pack, unpack
from hermes.journal.runner import Runner
from hermes.journal.store import Store

#: The protocol of the loop between steps; a turn started under another one is finished as far as its steps match.
LOOP_VERSION = 1

Message = dict[str, Any]
StepState = Literal["claimed", "ran", "done"]
TurnState = Literal["running", "completed", "failed", "interrupted"]
PendingWrite = Callable[[sqlite3.Connection], None]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What the journal is told about a session when its first turn is accepted."""

    id: str
    cwd: str
    platform: str = "cli"
    provider: str = ""
    model: str = ""
    parent_id: str | None = None
    parent_call: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A step as recorded: ``claimed`` before its effect, ``ran`` with a raw result, ``done`` when nothing is left."""

    state: StepState
    body: Any


@dataclass(frozen=True, slots=True)
class ModelCallRow:
    """Timing, usage and outcome of one attempt at a provider."""

    api_request_id: str
    key: str
    provider: str
    model: str
    status: Literal["ok", "error", "interrupted", "crashed"]
    started_at: float
    duration: float
    error: str | None = None
    finish_reason: str | None = None
    first_token: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None


class TurnJournal:
    """The port through which the loop records one turn.

    What is written waits until ``commit``, so that rows which need no commit of their own ride on the next one. Every
    commit carries the epoch of the session's lease: a runner that was replaced writes nothing more.
    """

    def __init__(self, store: Store, lease: Lease, turn_id: str, ordinal: int, task_id: str, state: TurnState) -> None:
        self.session_id = lease.session_id
        self.id = turn_id
        self.ordinal = ordinal
        self.task_id = task_id
        self.state: TurnState = state
        self.steps: dict[str, Step] = {}
        self.answer: str | None = None
        self.error: str | None = None
        self.attempts_made = 0
        self._store = store
        self._lease = lease
        self._pending: list[_Row] = []
        self._lock = threading.Lock()

    # -- recording ----------------------------------------------------------------------------------------------

    def event(self, kind: str, key: str, body: object) -> None:
        """Append an event."""
        self._add(_Row(event=(kind, key, body, time.time())))

    def step(self, key: str, state: StepState, effect: str, body: object) -> None:
        """Record a step: its event and its state, which a replay finds."""
        self.steps[key] = Step(state, body)
        self._add(_Row(event=(f"step_{state}", key, body, time.time()), step=(key, effect, state)))

    def message(self, step: int, position: int, message: Message) -> None:
        """Put a message at its place in the conversation, replacing a provisional one."""
        row = (self.session_id, self.ordinal, step, position, message["role"])

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO messages (session_id, turn, step, position, role, body) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (*row, pack(connection, message)),
            )

        self._add(_Row(extra=write))

    def model_call(self, row: ModelCallRow) -> None:
        self.attempts_made += 1
        self._add(_Row(extra=lambda connection: _insert_model_call(connection, self, row)))

    def end(self, state: TurnState, *, answer: str | None = None, error: str | None = None) -> None:
        self.state, self.answer, self.error = state, answer, error
        values = (state, time.time(), answer, error, self.id)
        self.event("turn_ended", "", {"state": state, "error": error})
        self._add(
            _Row(
                extra=lambda connection: connection.execute(
                    "UPDATE turns SET state = ?, ended_at = ?, answer = ?, error = ? WHERE id = ?", values
                )
            )
        )

    def commit(self) -> None:
        """Put everything recorded so far on disk, or raise ``LeaseLost`` and write nothing."""
        rows = self._take_pending()
        if rows:
            self._store.write(lambda connection: self._write_rows(connection, rows))

    def write_pending(self, connection: sqlite3.Connection) -> None:
        """Like ``commit``, inside a transaction that is already open."""
        self._write_rows(connection, self._take_pending())

    def _add(self, row: _Row) -> None:
        with self._lock:
            self._pending.append(row)

    def _take_pending(self) -> list[_Row]:
        with self._lock:
            rows, self._pending = self._pending, []
        return rows

    def _write_rows(self, connection: sqlite3.Connection, rows: list[_Row]) -> None:
        seq = self._lease.advance(connection, sum(row.event is not None for row in rows))
        for row in rows:
            if row.event is not None:
                seq += 1
                self._write_event(connection, seq, row)
            if row.extra is not None:
                row.extra(connection)

    def _write_event(self, connection: sqlite3.Connection, seq: int, row: _Row) -> None:
        assert row.event is not None
        kind, key, body, at = row.event
        connection.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self.session_id, seq, self.id, kind, key, pack(connection, body), at),
        )
        if row.step is not None:
            _, effect, state = row.step
            connection.execute(
                "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?)",
                (self.id, key, effect, state, self._lease.epoch, seq),
            )


@dataclass(frozen=True, slots=True)
class _Row:
    """One waiting write: an event with the step it settles, or some other row."""

    event: tuple[str, str, object, float] | None = None
    step: tuple[str, str, StepState] | None = None
    extra: Callable[[sqlite3.Connection], object] | None = None


@dataclass(slots=True)
class Lease:
    """The right to write to a session, ended by a higher epoch."""

    session_id: str
    runner: str
    epoch: int

    def advance(self, connection: sqlite3.Connection, events: int) -> int:
        """Reserve sequence numbers; returns the last one in use before them. Raises when the lease is over."""
        row = connection.execute(
            "UPDATE sessions SET head_seq = head_seq + ?, updated_at = ? WHERE id = ? AND epoch = ? AND runner = ? "
            "RETURNING head_seq",
            (events, time.time(), self.session_id, self.epoch, self.runner),
        ).fetchone()
        if row is None:
            raise LeaseLost(
                f"session {self.session_id} was taken over by another process; nothing more was written here"
            )
        head: int = row[0]
        return head - events


def begin_turn(
    store: Store,
    runner: Runner,
    session: SessionInfo,
    *,
    turn_id: str,
    task_id: str,
    request_key: str,
    message: Message,
) -> TurnJournal:
    """Accept a message: once this returns, the turn is durable.

    The same request key again gives the turn it started the first time, finished or not.
    """
    runner.start()

    def write(connection: sqlite3.Connection) -> TurnJournal:
        lease = _take_lease(connection, runner, session, create=True, title=_title(message))
        known = connection.execute(
            "SELECT id FROM turns WHERE session_id = ? AND request_key = ?", (session.id, request_key)
        ).fetchone()
        if known is not None:
            return _load(connection, store, lease, known[0])
        row = connection.execute(
            "SELECT count(*), coalesce(sum(state = 'running'), 0) FROM turns WHERE session_id = ?",
            (session.id,),
        ).fetchone()
        if row[1]:
            raise JournalError(f"session {session.id} has an unfinished turn; resume it first")
        ordinal: int = row[0]
        connection.execute(
            "INSERT INTO turns (id, session_id, ordinal, task_id, request_key, state, loop_version, started_at) "
            "VALUES (?, ?, ?, ?, ?, 'running', ?, ?)",
            (turn_id, session.id, ordinal, task_id, request_key, LOOP_VERSION, time.time()),
        )
        turn = TurnJournal(store, lease, turn_id, ordinal, task_id, "running")
        turn.event("turn_started", "", {"message": message})
        turn.message(0, 0, message)
        turn.write_pending(connection)
        return turn

    return store.write(write)


def reopen_turn(store: Store, runner: Runner, session_id: str, *, states: tuple[TurnState, ...]) -> TurnJournal | None:
    """Take the session and its last turn, when that is in one of ``states``, to finish it. None when there is none.

    Whatever was in flight when its runner died is closed in the journal first.
    """
    runner.start()

    def write(connection: sqlite3.Connection) -> TurnJournal | None:
        last = connection.execute(
            "SELECT id, state FROM turns WHERE session_id = ? ORDER BY ordinal DESC LIMIT 1", (session_id,)
        ).fetchone()
        if last is None or last[1] not in states:
            return None
        lease = _take_lease(connection, runner, SessionInfo(session_id, ""), create=False)
        turn = _load(connection, store, lease, last[0])
        if last[1] == "running":
            _close_open_attempt(connection, turn)
        turn.event("turn_resumed", "", {"in_flight": [k for k, s in turn.steps.items() if s.state == "claimed"]})
        connection.execute(
            "UPDATE turns SET state = 'running', attempts = attempts + 1, ended_at = NULL, error = NULL WHERE id = ?",
            (turn.id,),
        )
        turn.write_pending(connection)
        turn.state = "running"
        return turn

    return store.write(write)


def _take_lease(
    connection: sqlite3.Connection, runner: Runner, session: SessionInfo, *, create: bool, title: str = ""
) -> Lease:
    row = connection.execute("SELECT runner, epoch FROM sessions WHERE id = ?", (session.id,)).fetchone()
    now = time.time()
    if row is None:
        if not create:
            raise SessionNotFound(f"no session {session.id!r}; 'hermes sessions list' shows those there are")
        connection.execute(
            "INSERT INTO sessions (id, parent_id, parent_call, platform, title, cwd, provider, model, runner, epoch, "
            "created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
            (
                *(session.id, session.parent_id, session.parent_call, session.platform, title, session.cwd),
                *(session.provider, session.model, runner.id, now, now),
            ),
        )
        return Lease(session.id, runner.id, 1)
    owner, epoch = row
    if owner == runner.id:
        return Lease(session.id, runner.id, epoch)
    if owner is not None and runner.is_alive(owner):
        raise SessionBusy(
            f"session {session.id} is in use by {runner.describe(owner)}; wait for it to end or start a new session"
        )
    connection.execute("UPDATE sessions SET runner = ?, epoch = ? WHERE id = ?", (runner.id, epoch + 1, session.id))
    return Lease(session.id, runner.id, epoch + 1)


def _load(connection: sqlite3.Connection, store: Store, lease: Lease, turn_id: str) -> TurnJournal:
    ordinal, task_id, state, answer, error = connection.execute(
        "SELECT ordinal, task_id, state, answer, error FROM turns WHERE id = ?", (turn_id,)
    ).fetchone()
    turn = TurnJournal(store, lease, turn_id, ordinal, task_id, state)
    turn.answer, turn.error = answer, error
    turn.attempts_made = connection.execute(
        "SELECT count(*) FROM model_calls WHERE turn_id = ?", (turn_id,)
    ).fetchone()[0]
    rows = connection.execute(
        "SELECT s.key, s.state, e.body FROM steps s JOIN events e ON e.session_id = ? AND e.seq = s.result_seq "
        "WHERE s.turn_id = ?",
        (lease.session_id, turn_id),
    ).fetchall()
    turn.steps = {key: Step(step_state, unpack(connection, body)) for key, step_state, body in rows}
    return turn


def _close_open_attempt(connection: sqlite3.Connection, turn: TurnJournal) -> None:
    """Close the model call that may have been under way when the runner died.

    Its start rode on a commit that never came, so it is inferred: the next step is a model call when the set-up is done
    and every tool call of the last reply is.
    """
    key = next_model_key(turn.steps)
    if key is None:
        return
    at: float = connection.execute(
        "SELECT max(at) FROM events WHERE session_id = ? AND turn_id = ?", (turn.session_id, turn.id)
    ).fetchone()[0]
    turn.model_call(
        ModelCallRow(
            api_request_id=f"{turn.id}:api:{turn.attempts_made + 1}",
            key=key,
            provider="",
            model="",
            status="crashed",
            started_at=at,
            duration=0.0,
            error="the process ended before an answer was recorded",
        )
    )


def next_model_key(steps: dict[str, Step]) -> str | None:
    """The model step that comes next, or None when something else does."""
    if "setup" not in steps or "final" in steps:
        return None
    number = 1
    while (step := steps.get(f"model:{number}")) is not None:
        calls = step.body["tool_calls"]
        if not calls or any(not _is_over(steps.get(f"tool:{number}.{i}")) for i in range(len(calls))):
            return None
        number += 1
    return f"model:{number}"


def _is_over(step: Step | None) -> bool:
    return step is not None and step.state != "claimed"


def _insert_model_call(connection: sqlite3.Connection, turn: TurnJournal, row: ModelCallRow) -> None:
    connection.execute(
        "INSERT INTO model_calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(
                row.api_request_id,
                turn.session_id,
                turn.id,
                row.key,
                row.provider,
                row.model,
                row.status,
                row.error,
            ),
            *(
                row.finish_reason,
                row.started_at,
                row.duration,
                row.first_token,
                row.input_tokens,
                row.output_tokens,
            ),
            *(row.cache_read_tokens, row.cache_write_tokens, row.reasoning_tokens, row.cost_usd),
        ),
    )


def _title(message: Message) -> str:
    line = " ".join(message_text(message).split())
    return line if len(line) <= 60 else line[:59] + "…"
