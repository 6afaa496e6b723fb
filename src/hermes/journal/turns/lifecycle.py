"""Turns in the journal: accepted once per idempotency key, and resumed where a process that died left them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from hermes.base.errors import JournalError, QueueFull, SessionBusy, UnfinishedTurn
from hermes.journal import records
from hermes.journal.bodies import clean_text, message_text, pack, to_json, unpack
from hermes.journal.events import last_record, read_turn, readable
from hermes.journal.history.rows import FAMILY
from hermes.journal.leases import Lease, SessionInfo, create_session, is_stored, take_lease
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection, now
from hermes.journal.store.port import Store
from hermes.journal.turns.recovery import GIVEN_UP, MAX_TAKE_UPS, close_turn, count_progress, is_final, settle_claims
from hermes.journal.turns.steps import NO_FIELDS, NOT_ASIDE, Fields, Message, ModelCallRow, Step, TurnJournal, TurnState

#: The protocol of the loop between steps, stored with every turn so that a later version recognises it.
LOOP_VERSION = 1


def begin_turn(
    store: Store,
    runner: Runner,
    session: SessionInfo,
    *,
    turn_id: str,
    task_id: str,
    request_key: str,
    message: Message,
    source: str = "",
    environment: Fields = NO_FIELDS,
) -> TurnJournal:
    """Accept a message: once this returns, the turn is durable.

    ``request_key`` is an idempotency key: the same one again gives the turn it started the first time, ended or to be
    finished now when the process that ran it is gone. ``source`` is the surface that the message came from; without one
    it is that of the session. ``environment`` is what a turn that is taken up again runs with from
    now on: the version of Hermes, the plugins, the digest of the configuration.
    """
    if runner.start():
        store.check_after_crash()

    def write(connection: JournalConnection) -> TurnJournal:
        known = connection.execute(
            "SELECT id FROM turns WHERE session_id = ? AND request_key = ?", (session.id, request_key)
        ).fetchone()
        if known is not None:
            return _deliver_again(connection, store, runner, session.id, known[0], message, environment)
        if is_stored(connection, session.id):
            lease = take_lease(connection, runner, session.id)
        else:
            lease = create_session(connection, runner, session, session.title or _title(message))
        if connection.execute(f"SELECT {_UNFINISHED}", (session.id,)).fetchone()[0]:
            raise _unfinished_turn(session.id)
        ids = (turn_id, task_id, request_key, source or session.platform)
        place = (lease.session_id, lease.session_id, *ids, "running", LOOP_VERSION, lease.head_seq + 1, now(connection))
        (ordinal,) = connection.execute(_INSERT_TURN.format(ordinal=_NEXT_ORDINAL), place).fetchall()[0]
        return _started(connection, TurnJournal(store, lease, turn_id, ordinal, task_id, "running"), message)

    return store.write(write)


_INSERT_TURN = (
    "INSERT INTO turns (session_id, ordinal, id, task_id, request_key, source, state, loop_version, first_seq, "
    "started_at) VALUES (?, {ordinal}, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING ordinal"
)
#: The place of a turn that starts now, and whether one is open. Those that wait in a queue have no place yet.
_NEXT_ORDINAL = "(SELECT coalesce(max(o.ordinal) + 1, 0) FROM turns o WHERE o.session_id = ? AND o.ordinal >= 0)"
#: In the words of the index of a session's open turns.
_UNFINISHED = (
    "EXISTS (SELECT 1 FROM turns r WHERE r.session_id = ? AND r.state IN ('queued', 'running') AND r.state <> 'queued')"
)


def _unfinished_turn(session_id: str) -> UnfinishedTurn:
    return UnfinishedTurn(f"session {session_id} has an unfinished turn; resume it first")


def _started(connection: JournalConnection, turn: TurnJournal, message: Message) -> TurnJournal:
    turn.event("turn_started", "", records.StartRecord(message))
    turn.message(0, 0, message)
    turn.write_pending(connection)
    return turn


def _deliver_again(
    connection: JournalConnection,
    store: Store,
    runner: Runner,
    session_id: str,
    turn_id: str,
    message: Message,
    environment: Fields,
) -> TurnJournal:
    state, owner = connection.execute(
        "SELECT t.state, s.runner FROM turns t JOIN sessions s ON s.id = t.session_id WHERE t.id = ?", (turn_id,)
    ).fetchone()
    _refuse_another_message(connection, turn_id, message)
    if state == "queued":
        raise SessionBusy(f"this very message waits already, to be answered in session {session_id}")
    if state != "running":
        # An epoch that no lease ever had: this turn is over and can only be read.
        return _load(connection, store, Lease(session_id, runner.id, -1), turn_id)
    if owner == runner.id:
        raise SessionBusy(f"session {session_id} is answering this very message already; wait for it to end")
    return resume_turn(connection, store, runner, session_id, turn_id, environment)


def _refuse_another_message(connection: JournalConnection, turn_id: str, message: Message) -> None:
    """Raise when a turn was accepted with another message than this one."""
    waiting = connection.execute("SELECT message FROM submissions WHERE turn_id = ?", (turn_id,)).fetchone()
    if waiting is not None and waiting[0]:
        known = unpack(connection, waiting[0])
    else:
        (session_id,) = connection.execute("SELECT session_id FROM turns WHERE id = ?", (turn_id,)).fetchone()
        start = last_record(connection, records.StartRecord, session_id, turn_id)
        known = None if start is None else start.message
    if to_json(known) != to_json(message):
        raise JournalError(f"another message with this request key was accepted before, as turn {turn_id}")


def reopen_turn(
    store: Store,
    runner: Runner,
    session_id: str,
    *,
    states: tuple[TurnState, ...],
    environment: Fields = NO_FIELDS,
) -> TurnJournal | None:
    """Take the session and its last turn, when that is in one of ``states``, to finish it. None when there is none.

    Whatever was in flight when its runner died is closed in the journal first. A turn that was given up stays closed.
    """
    if runner.start():
        store.check_after_crash()

    def write(connection: JournalConnection) -> TurnJournal | None:
        turn_id = _unfinished(connection, session_id, states)
        return None if turn_id is None else resume_turn(connection, store, runner, session_id, turn_id, environment)

    return store.write(write)


def finish_reason_of(store: Store, session_id: str, turn_id: str) -> str:
    """Why the answer of a turn ended; empty when it has none."""
    final = store.read(lambda connection: last_record(connection, records.FinalRecord, session_id, turn_id))
    return "" if final is None else final.finish_reason


def error_type_of(store: Store, session_id: str, turn_id: str) -> str:
    """The class of the failure that ended a turn; empty when it was not recorded."""
    end = store.read(lambda connection: last_record(connection, records.EndRecord, session_id, turn_id))
    return "" if end is None else end.error_type


def unfinished_state(store: Store, session_id: str) -> TurnState | None:
    """The state of the last turn when it has no answer and can be continued."""
    states: tuple[TurnState, ...] = ("running", "interrupted", "failed")

    def read(connection: JournalConnection) -> TurnState | None:
        turn_id = _unfinished(connection, session_id, states)
        query = "SELECT state FROM turns WHERE id = ?"
        return None if turn_id is None else connection.execute(query, (turn_id,)).fetchone()[0]

    return store.read(read)


def _unfinished(connection: JournalConnection, session_id: str, states: tuple[TurnState, ...]) -> str | None:
    last = connection.execute(
        "SELECT id, state, attempts, error FROM turns WHERE session_id = ? AND undone = 0 "
        "ORDER BY ordinal DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return None if last is None or last[1] not in states or is_final(*last[1:]) else last[0]


def resume_turn(
    connection: JournalConnection,
    store: Store,
    runner: Runner,
    session_id: str,
    turn_id: str,
    environment: Fields = NO_FIELDS,
) -> TurnJournal:
    """Like ``reopen_turn`` for a turn that is known, inside a transaction that is already open."""
    lease = take_lease(connection, runner, session_id)
    turn = _load(connection, store, lease, turn_id)
    was_cut_off = turn.state == "running"
    if was_cut_off:
        _close_open_attempt(connection, turn)
    progress = count_progress(connection, turn)
    attempts = _count_attempt(connection, turn, progress) if was_cut_off else 1
    in_flight = [key for key, step in turn.steps.items() if step.state == "claimed"]
    shared = {"environment": environment} if environment else NO_FIELDS
    turn.event("turn_resumed", "", records.ResumptionRecord(in_flight, progress), shared)
    settle_claims(turn)
    connection.execute(
        "UPDATE turns SET state = 'running', attempts = ?, ended_at = NULL, error = NULL WHERE id = ?",
        (attempts, turn_id),
    )
    turn.write_pending(connection)
    turn.state, turn.error = "running", None
    turn.was_left, turn.is_exhausted = True, attempts > MAX_TAKE_UPS + 1
    return turn


def close_children(store: Store, runner: Runner, session_id: str) -> None:
    """End the turns that dead processes left open in the sessions of children: no call waits for them any more."""

    def write(connection: JournalConnection) -> None:
        rows = connection.execute(
            f"{FAMILY}SELECT t.session_id, t.id, s.runner FROM family f JOIN sessions s ON s.id = f.id "
            "JOIN turns t ON t.session_id = s.id WHERE t.state = 'running' AND s.id <> :id",
            {"id": session_id},
        ).fetchall()
        for child_id, turn_id, owner in rows:
            if owner is None or not runner.is_alive(owner):
                turn = resume_turn(connection, store, runner, child_id, turn_id)
                close_turn(turn, "interrupted", f"{GIVEN_UP}: the call that delegated this ended without it")
                turn.write_pending(connection)

    store.write(write)


def _count_attempt(connection: JournalConnection, turn: TurnJournal, progress: int) -> int:
    """How many processes have run the turn since it last got somewhere, this one included."""
    attempts: int = connection.execute("SELECT attempts FROM turns WHERE id = ?", (turn.id,)).fetchone()[0]
    before = last_record(connection, records.ResumptionRecord, turn.session_id, turn.id)
    is_stuck = before is None or before.progress >= progress
    return attempts + 1 if is_stuck else 2


def _load(connection: JournalConnection, store: Store, lease: Lease, turn_id: str) -> TurnJournal:
    session_id = lease.session_id
    ordinal, task_id, state, answer, error = connection.execute(
        "SELECT ordinal, task_id, state, answer, error FROM turns WHERE id = ?", (turn_id,)
    ).fetchone()
    turn = TurnJournal(store, lease, turn_id, ordinal, task_id, state)
    turn.answer, turn.error = answer, error
    turn.attempts_made = connection.execute(
        f"SELECT count(*) FROM model_calls WHERE session_id = ? AND turn_id = ? AND {NOT_ASIDE}",
        (session_id, turn_id),
    ).fetchone()[0]
    # In order, so that the result of a step replaces its claim.
    for event in read_turn(connection, session_id, turn_id):
        if event.effect is not None:
            turn.steps[event.key] = Step("done" if event.kind == records.STEP_DONE else "claimed", readable(event))
            waited = turn.waiting.get(event.key)
            if waited is not None:  # it went on, and for that plugins were told of the answer
                turn.waiting[event.key] = replace(waited, question="")
        elif event.kind == "call_waits":
            turn.waiting[event.key] = readable(event)
    messages = connection.execute(
        "SELECT step, position, body FROM messages WHERE session_id = ? AND turn = ?", (session_id, ordinal)
    ).fetchall()
    turn.messages = {(step, position): unpack(connection, body) for step, position, body in messages}
    return turn


def _close_open_attempt(connection: JournalConnection, turn: TurnJournal) -> None:
    """Close the model call that may have been running when the runner died.

    Its start was to be written by a commit that never came, so it is inferred: the next step is a model call when the
    set-up is done and every tool call of the last reply is.
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
        answered: records.ReplyRecord = step.body
        calls = answered.reply.tool_calls
        if not calls and not answered.reply.content.strip():
            break  # an empty answer is asked for again
        verify = steps.get(f"verify:{number}")
        sent_on = (
            f"steer:{number}" in steps
            or f"continue:{number}" in steps
            or (verify is not None and verify.body.message is not None)
        )
        if not calls and not sent_on:
            return None
        if any(not _is_over(steps.get(f"tool:{number}.{i}")) for i in range(len(calls))):
            return None
        number += 1
    return f"model:{number}"


def _is_over(step: Step | None) -> bool:
    return step is not None and step.state != "claimed"


def _title(message: Message) -> str:
    line = " ".join(message_text(message).split())
    return line if len(line) <= 60 else line[:59] + "…"


# -- turns that are accepted now and run later --------------------------------------------------------------------


class QueueLimits(NamedTuple):
    """How many turns may wait at most, and how many of one principal. 0 means no limit."""

    waiting: int = 0
    waiting_of_principal: int = 0


NO_LIMITS = QueueLimits()


class Submission(msgspec.Struct, frozen=True):
    """A turn as it was submitted, and its state now."""

    turn_id: str
    session_id: str
    task_id: str
    request_key: str
    #: The surface that it came from.
    source: str
    state: TurnState
    #: Whose slots it uses: ``turns``, or ``children`` for what another turn waits for.
    queue: str
    #: Turns with a higher number start first.
    priority: int
    #: The caller it is for; empty is the owner of the home.
    principal: str
    submitted_at: float
    #: What the turn is to be run with, as plain data.
    options: dict[str, Any] = {}


class Accepted(NamedTuple):
    """A turn that is in the journal now."""

    submission: Submission
    #: Whether it was not there before.
    is_new: bool


_SUBMISSION = (
    "SELECT t.id, t.session_id, t.task_id, t.request_key, t.source, t.state, u.queue, u.priority, u.principal, "
    "u.submitted_at, u.options FROM turns t JOIN submissions u ON u.turn_id = t.id WHERE "
)


#: Only with the very words of the index can SQLite use it: without them every turn there ever was is read.
_QUEUED = "state = 'queued' AND state IN ('queued', 'running')"
#: What a turn finds that is to be accepted: one with its key, its session, the last place in its queue, all that wait.
_BEFORE = (
    "SELECT (SELECT id FROM turns WHERE session_id = :session AND request_key = :key), "
    "(SELECT principal FROM sessions WHERE id = :session), "
    "(SELECT min(ordinal) FROM turns WHERE session_id = :session), 0"
)
_BEFORE_LIMITED = f"{_BEFORE[:-1]}(SELECT count(*) FROM turns WHERE {_QUEUED})"


def accept_turn(
    connection: JournalConnection,
    session: SessionInfo,
    submission: Submission,
    message: Message,
    limits: QueueLimits = NO_LIMITS,
) -> Accepted:
    """Put a turn into the queue of its session, in the transaction of the caller.

    A session that is not stored yet is made. Raises ``QueueFull``, or ``JournalError`` when the idempotency key was
    used for another message, or the session belongs to another principal than the turn.
    """
    query = _BEFORE_LIMITED if any(limits) else _BEFORE
    known, principal, lowest, waiting = connection.execute(
        query, {"session": session.id, "key": submission.request_key}
    ).fetchone()
    if known is not None:
        _refuse_another_message(connection, known, message)
        found = find_submission(connection, known)
        if found is None:
            raise JournalError(f"turn {known} was not submitted: the process that accepted it runs it")
        return Accepted(found, False)
    _refuse_when_full(connection, submission.principal, limits, waiting)
    at = now(connection)
    ids = (submission.turn_id, submission.task_id, submission.request_key, submission.source)
    if principal is None:
        create_session(connection, None, session, session.title or _title(message))
    elif principal != clean_text(session.principal):
        # A turn runs with the rights of its session: those of another principal are not to be had by its id.
        raise JournalError(f"session {session.id} belongs to another principal; begin a session of your own")
    values = (session.id, min(lowest or 0, 0) - 1, *ids, "queued", LOOP_VERSION, 0, at)
    connection.execute(_INSERT_TURN.format(ordinal="?"), values)
    query = (
        "INSERT INTO submissions (turn_id, session_id, queue, priority, principal, submitted_at, options, message) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    )
    owner, options = clean_text(submission.principal), to_json(submission.options)
    body = pack(connection, session.id, to_json(message))
    place = (submission.queue, submission.priority)
    connection.execute(query, (submission.turn_id, session.id, *place, owner, at, options, body))
    return Accepted(msgspec.structs.replace(submission, submitted_at=at), True)


def _refuse_when_full(connection: JournalConnection, principal: str, limits: QueueLimits, waiting: int) -> None:
    if limits.waiting and waiting >= limits.waiting:
        raise QueueFull(f"{waiting} turns wait already, which is the limit (worker.max_waiting); try again later")
    own = 0
    if limits.waiting_of_principal and waiting >= limits.waiting_of_principal:
        (own,) = connection.execute(
            "SELECT count(*) FROM submissions WHERE principal = ? AND turn_id IN "
            f"(SELECT id FROM turns WHERE {_QUEUED})",
            (principal,),
        ).fetchone()
    if limits.waiting_of_principal and own >= limits.waiting_of_principal:
        raise QueueFull(
            f"{own} turns of this caller wait already, which is the limit (worker.max_waiting_of_principal); "
            f"try again when some have ended"
        )


def find_submission(connection: JournalConnection, turn_id: str) -> Submission | None:
    """A turn as it was submitted; None when there is no such turn, or when it never waited."""
    return next(iter(_submissions(connection, "t.id = ?", (turn_id,))), None)


def open_submissions(store: Store) -> list[Submission]:
    """The submitted turns that have not ended, in the order of their sessions' queues."""
    where = "t.state IN ('queued', 'running') ORDER BY u.submitted_at, t.ordinal DESC"
    return store.read(lambda connection: _submissions(connection, where, ()))


def _submissions(connection: JournalConnection, where: str, values: tuple[object, ...]) -> list[Submission]:
    rows = connection.execute(_SUBMISSION + where, values).fetchall()
    return [Submission(*row[:10], options=msgspec.json.decode(row[10])) for row in rows]


def claim_turn(
    store: Store,
    runner: Runner,
    turn_id: str,
    *,
    endpoint: tuple[str, str] = ("", ""),
    environment: Fields = NO_FIELDS,
) -> TurnJournal:
    """Take up a submitted turn: start it, or continue it where a process that died left it.

    One that has ended is returned as it is and can only be read. ``endpoint`` is the provider and the model, for a
    session that has none recorded. Raises ``SessionBusy`` while another process holds the session.
    """
    if runner.start():
        store.check_after_crash()

    def write(connection: JournalConnection) -> TurnJournal:
        row = connection.execute(_SUBMITTED, (turn_id,)).fetchone()
        if row is None:
            raise JournalError(f"there is no turn {turn_id!r}")
        session_id, state, message = row
        if state == "queued":
            lease = take_lease(connection, runner, session_id, endpoint)
            return _start_accepted(connection, store, lease, turn_id, unpack(connection, message))
        if state == "running":
            return resume_turn(connection, store, runner, session_id, turn_id, environment)
        return _load(connection, store, Lease(session_id, runner.id, -1), turn_id)

    # Nothing is lost without a sync: a turn whose claim did not reach the disk is still queued there.
    turn = store.write_soon(write)
    if turn.was_left:
        store.sync()
    return turn


_SUBMITTED = (
    "SELECT t.session_id, t.state, coalesce(u.message, '') FROM turns t LEFT JOIN submissions u ON u.turn_id = t.id "
    "WHERE t.id = ?"
)
_START_ACCEPTED = (
    f"UPDATE turns SET state = 'running', ordinal = {_NEXT_ORDINAL}, first_seq = ?, started_at = ? "
    f"WHERE id = ? AND state = 'queued' AND NOT {_UNFINISHED} RETURNING ordinal, task_id"
)


def _start_accepted(
    connection: JournalConnection, store: Store, lease: Lease, turn_id: str, message: Message
) -> TurnJournal:
    session_id = lease.session_id
    values = (session_id, lease.head_seq + 1, now(connection), turn_id, session_id)
    rows = connection.execute(_START_ACCEPTED, values).fetchall()
    if not rows:
        raise _unfinished_turn(session_id)
    connection.execute("UPDATE submissions SET message = '' WHERE turn_id = ?", (turn_id,))
    ordinal, task_id = rows[0]
    turn = TurnJournal(store, lease, turn_id, ordinal, task_id, "running")
    return _started(connection, turn, message)


def cancel_queued(store: Store, turn_id: str, reason: str) -> bool:
    """Give up a turn that has not started. False when it has, or when there is none.

    It was never part of the conversation, and counts as undone.
    """
    values = (time.time(), f"{GIVEN_UP}: {clean_text(reason)}", turn_id)
    query = (
        "UPDATE turns SET state = 'interrupted', undone = 1, ended_at = ?, error = ? WHERE id = ? AND state = 'queued'"
    )
    return store.write(lambda connection: connection.execute(query, values).rowcount) == 1
