"""Fork: a new session that begins with the recorded steps of another one and is live from there."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from hermes.base.errors import HermesError
from hermes.journal.bodies import clean_text, pack, pack_shared, to_json, unpack
from hermes.journal.events import chain_events
from hermes.journal.history.branching import next_title
from hermes.journal.history.copies import (
    Row,
    SessionRows,
    add_step,
    read_sessions,
    replace_body,
    replace_message,
    set_head,
    write_rows,
)
from hermes.journal.records import StartRecord, SteeringRecord
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store

_PLACE = re.compile(r"(\d+)(?:\.(\d+))?")
_SHARED_FIELDS = ("system", "tools", "facts", "environment")
#: The position of a message that is added to a running turn, as the loop has it.
_AFTER_TOOL_RESULTS = 1_000_000
_SPENT = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost_usd")


@dataclass(frozen=True, slots=True)
class ForkPlace:
    """Where a fork becomes live: at a turn, or at one of its model steps. Both are counted from 1."""

    turn: int
    step: int | None = None

    @classmethod
    def parse(cls, text: str) -> ForkPlace:
        """``2`` or ``2.3``. Raises ``HermesError`` for anything else."""
        found = _PLACE.fullmatch(text.strip())
        if found is None or int(found[1]) < 1 or found[2] == "0":
            raise HermesError(f"--at {text}: give a turn, or a turn and a model step, such as 2 or 2.3")
        return cls(int(found[1]), int(found[2]) if found[2] else None)


@dataclass(frozen=True, slots=True)
class ForkChanges:
    """What is different in the fork from the beginning."""

    #: The whole system prompt of the turn.
    system: str | None = None
    #: Another message for the turn; after its first step, a message that is added to it.
    message: str | None = None
    #: Names of the tools that exist now; None leaves the recorded ones.
    tools: frozenset[str] | None = None


def fork_session(
    store: Store, runner: Runner, session_id: str, new_id: str, place: ForkPlace, changes: ForkChanges
) -> str | None:
    """Make the fork, whole or not at all. Nothing runs and nothing is paid for again.

    Returns the message that the fork has to be sent; None when it has a turn to continue.
    """
    runner.start()
    origin = Sessions(store).get(session_id).id

    def write(connection: JournalConnection) -> str | None:
        rows = read_sessions(connection, [origin])
        turn = _turn_at(rows, origin, place)
        takes_setup = place.step is not None or changes.system is not None
        if not takes_setup:
            message = changes.message or _message_of(connection, rows, turn)
            last = turn["first_seq"] - 1
        else:
            message = None
            last = _last_event(rows, turn, place.step or 1)
        _cut(rows, turn, last, (place.step or 1) if takes_setup else 0)
        _rename(connection, rows, origin, new_id, place, last)
        write_rows(connection, rows)
        if takes_setup:
            _change_setup(connection, rows, turn, changes)
            if changes.message is not None:
                _change_message(connection, rows, turn, place.step or 1, changes.message)
        chain_events(connection, new_id)
        set_head(connection, new_id, runner.id)
        return message

    return store.write(write)


def _turn_at(rows: SessionRows, session_id: str, place: ForkPlace) -> Row:
    found = next((row for row in rows.tables["turns"] if row["ordinal"] == place.turn - 1), None)
    if found is None:
        raise HermesError(
            f"session {session_id} has no turn {place.turn}; it has turns 1 to {len(rows.tables['turns'])}"
        )
    if found["undone"]:
        raise HermesError(f"turn {place.turn} of session {session_id} was undone, and is not part of the conversation")
    return found


def _message_of(connection: JournalConnection, rows: SessionRows, turn: Row) -> Any:
    event = next(row for row in rows.tables["events"] if row["seq"] == turn["first_seq"])
    return unpack(connection, event["body"])["message"]["content"]


def _last_event(rows: SessionRows, turn: Row, step: int) -> int:
    """The last event before a model step."""
    events = _events_of(rows, turn)
    steps = {int(row["key"].partition(":")[2]) for row in events if row["key"].startswith("model:")}
    if not any(row["key"] == "setup" for row in events):
        raise HermesError(f"turn {turn['ordinal'] + 1} ended before it was set up; fork at the turn instead")
    if step > max(steps, default=0) or (step > 1 and step - 1 not in steps):
        has = f"model steps 1 to {max(steps)}" if steps else "no model step"
        raise HermesError(f"turn {turn['ordinal'] + 1} has {has}; there is nothing to run from step {step} on")
    later = [row["seq"] for row in events if _step_of(row["key"]) >= step or row["kind"] == "turn_ended"]
    return min(later) - 1


def _step_of(key: str) -> int:
    kind, _, number = key.partition(":")
    if kind == "final":
        return 2**31
    return int(number.partition(".")[0]) if number else 0


def _cut(rows: SessionRows, turn: Row, last: int, step: int) -> None:
    """Leave out the events behind ``last``, and of the turn the messages from ``step`` on; 0 leaves out the turn."""
    tables, ordinal = rows.tables, turn["ordinal"]
    tables["events"] = [row for row in tables["events"] if row["seq"] <= last]
    tables["turns"] = [row for row in tables["turns"] if row["ordinal"] < ordinal + bool(step)]
    tables["messages"] = [row for row in tables["messages"] if (row["turn"], row["step"]) < (ordinal, step)]
    kept = {row["id"] for row in tables["turns"]}
    tables["model_calls"] = [
        {**row, **dict.fromkeys(_SPENT), "content": None}
        for row in tables["model_calls"]
        if row["turn_id"] in kept and row["key"].startswith("model:")
        if row["turn_id"] != turn["id"] or _step_of(row["key"]) < step
    ]
    tables["questions"] = []
    for row in tables["turns"]:
        if row["ordinal"] == ordinal:
            row.update(state="interrupted", answer=None, error=None, ended_at=row["started_at"], attempts=1)


def _rename(connection: JournalConnection, rows: SessionRows, old: str, new: str, place: ForkPlace, last: int) -> None:
    def turn_id(name: str) -> str:
        return name and (new + name.removeprefix(old) if name.startswith(f"{old}:") else f"{new}:{name}")

    now = time.time()
    for table, found in rows.tables.items():
        for row in found:
            if table == "sessions":
                row.update(
                    {"id": new, "branched_from": old, "parent_id": None, "parent_call": None},
                    branched_turn=place.turn - 1,
                    branched_step="" if place.step is None else f"model:{place.step - 1}",
                    branched_seq=last,
                    title=next_title(connection, row["title"]),
                    epoch=1,
                    created_at=now,
                    updated_at=now,
                )
                continue
            row["session_id"] = new
            if table == "turns":
                row["id"] = turn_id(row["id"])
            elif "turn_id" in row:
                row["turn_id"] = turn_id(row["turn_id"])
            if table == "events":
                row["epoch"] = 1
    rows.uses = {(new, digest) for _, digest in rows.uses}


def _change_setup(connection: JournalConnection, rows: SessionRows, turn: Row, changes: ForkChanges) -> None:
    event = next(row for row in _events_of(rows, turn) if row["key"] == "setup")
    session_id: str = event["session_id"]
    body: dict[str, Any] = unpack(connection, event["body"])
    if changes.system is not None:
        body["system"] = changes.system
    if changes.tools is not None:
        body["tools"] = [tool for tool in body["tools"] if tool["function"]["name"] in changes.tools]
    shared = {name: to_json(body.pop(name)) for name in _SHARED_FIELDS if name in body}
    text = pack_shared(connection, session_id, to_json(body), shared)
    replace_body(connection, session_id, event["seq"], text)


def _change_message(connection: JournalConnection, rows: SessionRows, turn: Row, step: int, text: str) -> None:
    """Replace the message of the turn, or add one after the step before ``step``."""
    session_id: str = turn["session_id"]
    message = {"role": "user", "content": clean_text(text)}
    place = (turn["ordinal"], 0, 0) if step == 1 else (turn["ordinal"], step - 1, _AFTER_TOOL_RESULTS)
    replace_message(connection, session_id, place, pack(connection, session_id, to_json(message)))
    if step == 1:
        body = pack(connection, session_id, to_json(StartRecord(message)))
        replace_body(connection, session_id, turn["first_seq"], body)
        return
    steer = f"steer:{step - 1}"
    if any(row["key"] == steer for row in _events_of(rows, turn)):
        raise HermesError(f"step {step - 1} was steered already; fork one step earlier or later to add a message")
    add_step(connection, session_id, turn["id"], steer, to_json(SteeringRecord([message["content"]])))


def _events_of(rows: SessionRows, turn: Row) -> list[Row]:
    return [row for row in rows.tables["events"] if row["turn_id"] == turn["id"]]
