"""The write-ahead record of one turn: steps, events, messages and model calls, committed together."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec.structs import replace

from hermes.base.errors import CommitUnknown
from hermes.base.sanitize import Redactor
from hermes.journal.bodies import clean_text, pack, put_blob, to_json
from hermes.journal.events import NewEvent, append_events
from hermes.journal.leases import Lease, is_stored
from hermes.journal.records import EndRecord, Message, WaitingCall, convert_record
from hermes.journal.store.connection import JournalConnection, now
from hermes.journal.store.port import Store

_Recorded = TypeVar("_Recorded")
#: Fields of a body by name.
Fields = Mapping[str, object]
NO_FIELDS: Fields = {}
StepState = Literal["claimed", "done"]
TurnState = Literal["queued", "running", "completed", "failed", "interrupted"]

#: The clock may have been set back since the turn started.
_END_TURN = (
    "UPDATE turns SET state = ?, ended_at = CASE WHEN started_at > ? THEN started_at ELSE ? END, answer = ?, error = ? "
    "WHERE id = ?"
)
_TOUCH_SESSION = "UPDATE sessions SET updated_at = ? WHERE id = ?"
_RELEASE_SESSION = "UPDATE sessions SET updated_at = ?, runner = NULL WHERE id = ?"
_REMOVE_MESSAGE = "DELETE FROM messages WHERE session_id = ? AND turn = ? AND step = ? AND position = ?"
_PUT_MESSAGE = "INSERT INTO messages (session_id, turn, step, position, role, body) VALUES (?, ?, ?, ?, ?, ?)"


class Step(msgspec.Struct, frozen=True):
    """A step as recorded: ``claimed`` before an unsafe effect (write-ahead claim), ``done`` with its result.

    The body is the record that belongs to the key, see ``records.STEPS``.
    """

    state: StepState
    body: Any


class ModelCallRow(msgspec.Struct, frozen=True):
    """Timing, usage and outcome of one attempt at a provider, named as the columns of the table."""

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
    #: What a plugin says that it asks for.
    purpose: str = ""
    #: What a plugin asked and what it was answered, as JSON; stored as a blob.
    content: str | None = None


#: Prefixes of the keys of model calls beside the conversation: auxiliary ones, and those of plugins.
SIDE_KEY, PLUGIN_KEY = "side:", "plugin:"
#: Leaves those out of a query.
NOT_ASIDE = f"key NOT LIKE '{SIDE_KEY}%' AND key NOT LIKE '{PLUGIN_KEY}%'"

*_MODEL_CALL_FIELDS, _ = ModelCallRow.__struct_fields__  # all but the content, which is the last one
_INSERT = (
    f"INSERT INTO {{table}} (session_id, turn_id, content, {', '.join(_MODEL_CALL_FIELDS)}) "
    f"VALUES (?, ?, ?{', ?' * len(_MODEL_CALL_FIELDS)})"
)
_INSERT_MODEL_CALL = _INSERT.format(table="model_calls")
_INSERT_OUTSIDE_CALL = _INSERT.format(table="outside_calls")


def is_aside(key: str) -> bool:
    """Whether a model was called beside the conversation."""
    return key.startswith((SIDE_KEY, PLUGIN_KEY))


class _Pending(msgspec.Struct):
    """The rows of the next commit, in the order in which they were recorded.

    All but late steps, which are functions, are encoded already: later changes to a recorded value do not change the
    record.
    """

    events: list[NewEvent | Callable[[], NewEvent]] = []
    #: (step, position, role, body, whether it replaces another)
    messages: list[tuple[int, int, str, str, bool]] = []
    others: list[Callable[[JournalConnection], object]] = []
    #: Lines for the log, once the rows are written.
    lines: list[tuple[logging.Logger, str, tuple[object, ...]]] = []

    def extend(self, later: _Pending) -> None:
        self.events += later.events
        self.messages += later.messages
        self.others += later.others
        self.lines += later.lines

    def made_events(self) -> list[NewEvent]:
        """The events with late steps made, each of which is made once."""
        for place, event in enumerate(self.events):
            if not isinstance(event, NewEvent):
                try:
                    self.events[place] = event()
                except Exception:
                    del self.events[place]  # it cannot be recorded, and must not keep the turn from ending
                    raise
        return cast("list[NewEvent]", self.events)


class TurnJournal:
    """The port through which the loop records one turn. Thread-safe: the threads of a batch share it.

    Rows wait until ``commit``, so that those which need no commit of their own are written with the next one. Every
    commit checks the fencing token (the epoch of the session's lease): a runner that was replaced writes nothing more.
    """

    def __init__(self, store: Store, lease: Lease, turn_id: str, ordinal: int, task_id: str, state: TurnState) -> None:
        self.session_id = lease.session_id
        self.id = turn_id
        self.ordinal = ordinal
        self.task_id = task_id
        self.state: TurnState = state
        self.steps: dict[str, Step] = {}
        #: The calls that an earlier run of the turn announced and left waiting, by their keys.
        self.waiting: dict[str, WaitingCall] = {}
        #: The messages of this turn by (step, position), as a replay finds them.
        self.messages: dict[tuple[int, int], Message] = {}
        self.answer: str | None = None
        self.error: str | None = None
        #: An earlier run left it, and it was taken up again.
        self.was_left = False
        #: It was taken up too often without a new step, and has to end as failed.
        self.is_exhausted = False
        self.attempts_made = 0
        self.lease = lease
        #: The end of the turn releases its session: nothing of it is recorded afterwards.
        self.releases = False
        #: Masks secrets in everything that is recorded; what is sent to the model is derived from the record.
        self.redactor: Redactor | None = None
        self._store = store
        self._pending = _Pending()
        self._pending_lock = threading.Lock()
        self._commit_lock = threading.Lock()
        #: Whether the last commit was made is not known, so that this process records nothing more of the turn.
        self._unknown: CommitUnknown | None = None

    @property
    def finish_reason(self) -> str:
        """Why the answer ended; empty while there is none."""
        final = self.steps.get("final")
        return "" if final is None else final.body.finish_reason

    # -- recording ----------------------------------------------------------------------------------------------

    def event(self, kind: str, key: str, body: object, shared: Fields = NO_FIELDS) -> None:
        """Append an event. ``shared`` are further fields, stored once for all events in which they are the same."""
        texts = {name: to_json(value) for name, value in shared.items()}
        self._add_event(NewEvent(kind, key, None, self._masked(body)[1], self._store.clock(), texts))

    def step(self, key: str, state: StepState, effect: str, body: object, shared: Fields = NO_FIELDS) -> None:
        """Record a step, which a replay finds by its key. ``shared`` are further fields, as for an event."""
        self._add_event(self._encoded_step(key, state, effect, body, shared, self._store.clock()))

    def step_later(self, key: str, effect: str, make: Callable[[], tuple[object, Fields]]) -> None:
        """Record a finished step; ``make`` gives its body and shared fields when it is committed.

        The time for that is found while a server answers. Nothing that ``make`` reads may change until then.
        """
        at = self._store.clock()
        self._add_event(lambda: self._encoded_step(key, "done", effect, *make(), at))

    def _encoded_step(
        self, key: str, state: StepState, effect: str, body: object, shared: Fields, at: float
    ) -> NewEvent:
        # The record of a tool is masked where it is made.
        encoded = _as_it_is if key.startswith("tool:") else self._masked
        record, text = encoded(body)
        if record is not body:
            record = convert_record(f"step_{state}", key, record)  # the masked copy is plain data
        texts: dict[str, str] = {}
        if shared:
            # One by one: most of them were searched before.
            fields = {name: encoded(value) for name, value in shared.items()}
            record = replace(cast("msgspec.Struct", record), **{name: value for name, (value, _) in fields.items()})
            texts = {name: text for name, (_, text) in fields.items()}
        self.steps[key] = Step(state, record)
        return NewEvent(f"step_{state}", key, effect, text, at, texts)

    def message(self, step: int, position: int, message: Message) -> None:
        """Put a message at its place in the conversation, replacing a provisional one."""
        # The message of a tool is masked where it is made.
        message, text = (_as_it_is if message["role"] == "tool" else self._masked)(message)
        row = (step, position, message["role"], text, (step, position) in self.messages)
        with self._pending_lock:
            self._pending.messages.append(row)
        self.messages[step, position] = message

    def model_call(self, row: ModelCallRow) -> None:
        """Record an attempt at a provider."""
        self.attempts_made += 1
        with self._pending_lock:
            self._pending.others.append(
                lambda connection: _insert_model_call(connection, self.session_id, self.id, row)
            )

    def end(
        self, state: TurnState, *, answer: str | None = None, error: str | None = None, error_type: str = ""
    ) -> None:
        """Record how the turn ended; ``error_type`` is the class of its failure."""
        if self.redactor is not None:
            answer, error = answer and self.redactor.mask_known(answer), error and self.redactor.mask_known(error)
        self.state, self.answer, self.error = state, answer, error
        values = (answer and clean_text(answer), error and clean_text(error), self.id)

        def write(connection: JournalConnection) -> None:
            at = now(connection)
            connection.execute(_END_TURN, (state, at, at, *values))
            connection.execute(_RELEASE_SESSION if self.releases else _TOUCH_SESSION, (at, self.session_id))

        self.event("turn_ended", "", EndRecord(state, error, error_type))
        with self._pending_lock:
            self._pending.others.append(write)

    def log_recorded(self, logger: logging.Logger, text: str, *values: object) -> None:
        """Log what was recorded, as soon as the record is written."""
        with self._pending_lock:
            self._pending.lines.append((logger, text, values))

    def _masked(self, value: _Recorded) -> tuple[_Recorded, str]:
        """The value without secrets, and its JSON text, which is what is searched for them."""
        text = to_json(value)
        if self.redactor is None or not self.redactor.find_known(text):
            return value, text
        value = self.redactor.masked_copy(text)
        return value, to_json(value)

    def _add_event(self, event: NewEvent | Callable[[], NewEvent]) -> None:
        with self._pending_lock:
            self._pending.events.append(event)

    # -- committing ---------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Put everything recorded so far on disk, or raise and write nothing; it then waits for the next commit.

        When this returns, what other threads recorded before the call is on disk too (group commit).
        """
        self._write_rows()
        self._store.sync()

    def commit_soon(self) -> None:
        """Write everything recorded so far, and bring it to the disk while the caller continues.

        The death of the process does not undo it, a power failure may. For what can be repeated: a claim, an answer
        that is shown and the end of a turn need ``commit``, which waits for this too.
        """
        if self._store.is_scratch:
            return  # there is nothing to keep after the death of this process
        if self._write_rows():
            self._store.start_sync()

    def _write_rows(self) -> bool:
        """Write what waits; False when that is nothing."""
        with self._commit_lock:
            if self._unknown is not None:
                raise self._unknown
            rows = self._take_pending()
            if not (rows.events or rows.messages or rows.others):
                _log_lines(rows.lines)
                return False
            try:
                events = rows.made_events()
                self._store.write_soon(lambda connection: self._write(connection, rows, events))
            except CommitUnknown as error:
                # They may be stored, and a second write could store them twice: the next owner of the turn finds out.
                self._unknown = error
                raise
            except BaseException:
                with self._pending_lock:
                    rows.extend(self._pending)
                    self._pending = rows
                raise
        _log_lines(rows.lines)
        return True

    def write_pending(self, connection: JournalConnection) -> None:
        """Like ``commit``, inside a transaction that is already open."""
        rows = self._take_pending()
        self._write(connection, rows, rows.made_events())
        _log_lines(rows.lines)

    def _take_pending(self) -> _Pending:
        with self._pending_lock:
            rows, self._pending = self._pending, _Pending()
        return rows

    def _write(self, connection: JournalConnection, rows: _Pending, events: Sequence[NewEvent]) -> None:
        session_id = self.session_id
        append_events(connection, self.lease, self.id, events)
        for step, position, role, text, replaces in rows.messages:
            if replaces:
                # A new row rather than a changed one: the search index follows the ids.
                connection.execute(_REMOVE_MESSAGE, (session_id, self.ordinal, step, position))
            body = pack(connection, session_id, text)
            connection.execute(_PUT_MESSAGE, (session_id, self.ordinal, step, position, role, body))
        for work in rows.others:
            work(connection)


def record_model_call(store: Store, session_id: str, turn_id: str, row: ModelCallRow) -> None:
    """Store a model call beside the conversation, if its session is stored."""

    def write(connection: JournalConnection) -> None:
        if is_stored(connection, session_id):
            _insert_model_call(connection, session_id, turn_id, row)

    store.write(write)


def record_plugin_calls(store: Store, calls: Sequence[tuple[str, str, ModelCallRow]]) -> None:
    """Store model calls of plugins, each with its session and turn, of which there may be none."""

    def write(connection: JournalConnection) -> None:
        for session_id, turn_id, row in calls:
            if is_stored(connection, session_id):
                _insert_model_call(connection, session_id, turn_id, row)
            else:
                content = row.content and put_blob(connection, row.content)
                connection.execute(_INSERT_OUTSIDE_CALL, _values(session_id, turn_id, row, content))

    store.write(write)


def _log_lines(lines: Sequence[tuple[logging.Logger, str, tuple[object, ...]]]) -> None:
    for logger, text, values in lines:
        if logger.isEnabledFor(logging.INFO):
            # Not ``logger.info``, which looks up who has called it: that would be this line.
            logger.handle(logger.makeRecord(logger.name, logging.INFO, __file__, 0, text, values, None))


def _as_it_is(value: _Recorded) -> tuple[_Recorded, str]:
    return value, to_json(value)


def _insert_model_call(connection: JournalConnection, session_id: str, turn_id: str, row: ModelCallRow) -> None:
    content = row.content and put_blob(connection, row.content, session_id)
    connection.execute(_INSERT_MODEL_CALL, _values(session_id, turn_id, row, content))


def _values(session_id: str, turn_id: str, row: ModelCallRow, content: str | None) -> tuple[object, ...]:
    *values, _ = msgspec.structs.astuple(row)
    texts = [clean_text(value) if isinstance(value, str) else value for value in values]
    return (session_id, turn_id, content, *texts)
