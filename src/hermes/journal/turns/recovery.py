"""Recovery of a turn whose process died: its started calls are settled, its take-ups counted, its record completed.

All of it happens inside the transaction that takes the turn up, and runs no code of plugins.
"""

from __future__ import annotations

from typing import Literal

from hermes.journal.bodies import to_json
from hermes.journal.history.rows import FAMILY
from hermes.journal.records import CallRecord, ClaimRecord, StoredCall, StoredReply
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import Step, TurnJournal

#: How often a turn is taken up again after a crash without a new step; then it ends as failed (dead letter).
MAX_TAKE_UPS = 5

#: The beginning of the error of a turn that was given up: nothing of it runs again.
GIVEN_UP = "given up"

_UNKNOWN = (
    "The process ended while this call was running, so it may or may not have taken effect. Check before you repeat it."
)
_NOT_RUN = "The turn ended before this call was run."
_WITHHELD = "The call ended and its result is recorded, but the turn failed before plugins could check it."

#: The steps of the turn and of the sessions it delegated to, and the answers to their questions: what only grows.
_PROGRESS = f"""
    {FAMILY}
    SELECT (SELECT count(*) FROM events e JOIN family f ON e.session_id = f.id WHERE e.effect IS NOT NULL
            AND (e.session_id <> :id OR e.turn_id = :turn))
        + (SELECT count(*) FROM questions WHERE turn_id = :turn AND answered_at IS NOT NULL)
"""


def settle_claims(turn: TurnJournal) -> None:
    """Give every call that had started and has no result the result that its outcome is unknown."""
    for key, step in list(turn.steps.items()):
        if step.state == "claimed":
            turn.step(key, "done", "unsafe", _failed(step.body, _UNKNOWN, "unknown_outcome", outcome="unknown"))


def count_progress(connection: JournalConnection, turn: TurnJournal) -> int:
    """How much of a turn is recorded: more than at the last take-up means that it gets somewhere."""
    return connection.execute(_PROGRESS, {"id": turn.session_id, "turn": turn.id}).fetchone()[0]


def is_exhausted(state: str, attempts: int) -> bool:
    """Whether a turn is a dead letter: it failed because it was taken up too often."""
    return state == "failed" and attempts > MAX_TAKE_UPS + 1


def is_final(state: str, attempts: int, error: str | None) -> bool:
    """Whether a turn that ended without an answer is not to be taken up again."""
    return is_exhausted(state, attempts) or (error or "").startswith(GIVEN_UP)


def dead_letters(store: Store, limit: int) -> list[tuple[str, int, float]]:
    """The turns that were taken up too often: session, ordinal and the time they ended, newest first."""
    query = (
        "SELECT session_id, ordinal, ended_at FROM turns WHERE state = 'failed' AND attempts > ? AND undone = 0 "
        "ORDER BY ended_at DESC LIMIT ?"
    )
    return store.read(lambda connection: connection.execute(query, (MAX_TAKE_UPS + 1, limit)).fetchall())


def adopt_turns(store: Store, runner: Runner, platform: str) -> None:
    """Make submissions of the turns of a surface that a process began without a dispatcher, and left."""
    find = (
        "SELECT t.id, s.runner FROM turns t JOIN sessions s ON s.id = t.session_id WHERE t.state = 'running' "
        "AND s.platform = ? AND s.parent_id IS NULL AND NOT EXISTS (SELECT 1 FROM submissions u WHERE u.turn_id = t.id)"
    )
    adopt = (
        "INSERT INTO submissions (turn_id, session_id, queue, priority, principal, submitted_at, options, message) "
        "SELECT t.id, t.session_id, 'turns', 0, s.principal, t.started_at, '{}', '' FROM turns t "
        "JOIN sessions s ON s.id = t.session_id WHERE t.id = ?"
    )
    found = store.read(lambda connection: connection.execute(find, (platform,)).fetchall())
    left = [(turn_id,) for turn_id, owner in found if owner is None or not runner.is_alive(owner)]
    if left:
        store.write(lambda connection: connection.executemany(adopt, left))


def close_turn(
    turn: TurnJournal,
    state: Literal["failed", "interrupted"],
    error: str,
    *,
    withhold_results: bool = False,
    error_type: str = "",
) -> None:
    """End a turn that is not going to run again: every call gets a result and a message, then the turn its end.

    ``withhold_results`` keeps results that plugins have not seen yet out of the conversation.
    """
    settle_claims(turn)
    place = (1, 0)
    for number, reply in _replies(turn.steps):
        calls = reply.tool_calls
        is_last_request = turn.messages.get((number, 0), {}).get("role") == "user"
        if calls and not is_last_request:
            _close_calls(turn, number, calls, withhold_results)
            place = (number + 1, 0)
        else:
            place = (number, int(is_last_request))
    said: str = turn.messages.get(place, {}).get("content") or ""
    turn.message(*place, {"role": "assistant", "content": f"{said}\n\n[{state}]" if said else f"[{state}]"})
    turn.end(state, error=error, error_type=error_type)


def _replies(steps: dict[str, Step]) -> list[tuple[int, StoredReply]]:
    found: list[tuple[int, StoredReply]] = []
    while (step := steps.get(f"model:{len(found) + 1}")) is not None:
        found.append((len(found) + 1, step.body.reply))
    return found


def _close_calls(turn: TurnJournal, number: int, calls: list[StoredCall], withhold_results: bool) -> None:
    for index, call in enumerate(calls):
        key, place = f"tool:{number}.{index}", (number, index + 1)
        step = turn.steps.get(key)
        if step is None:
            record = _failed(ClaimRecord(call.id, call.name), _NOT_RUN, "not_run")
            turn.step(key, "done", "pure", record)
        else:
            record: CallRecord = step.body
        if place not in turn.messages:
            hidden = withhold_results and record.error_type not in ("unknown_outcome", "not_run")
            content = to_json({"error": _WITHHELD}) if hidden else record.result
            turn.message(*place, {"role": "tool", "tool_call_id": call.id, "content": content})


def _failed(call: ClaimRecord, error: str, error_type: str, **extra: str) -> CallRecord:
    """The record of a call that did not get to its own result."""
    return CallRecord(
        id=call.id,
        name=call.name,
        args=call.args,
        result=to_json({"error": error, **extra}),
        status="error",
        error_type=error_type,
        error_message=error,
        duration_ms=0,
    )
