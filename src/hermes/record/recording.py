"""A recorded run as data: a session with its turns, steps, side calls, questions and child sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec.structs import astuple, replace

from hermes.agent.context.inputs import PromptFacts
from hermes.base.errors import HermesError
from hermes.journal import records
from hermes.journal.bodies import MissingBlob, unpack
from hermes.journal.events import NOT_JSON, ReadEvent, read_events
from hermes.journal.history.copies import check_size
from hermes.journal.history.rows import (
    SessionFacts,
    StoredCallRow,
    StoredMessage,
    TurnFacts,
    calls_of,
    child_ids,
    messages_of,
    session_facts,
    turns_of,
)
from hermes.journal.questions import QuestionRow, questions_of
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import is_aside

#: The facts in a prompt that was recorded without them.
_PLACE = re.compile(r"^Working directory: (.*)\nSystem: (.*), shell (.*)\nDate: (\S+)$", re.MULTILINE)


_NO_SETUP = records.SetupRecord()


class RecordedAttempt(msgspec.Struct, frozen=True):
    """One request to a model, as it ended: with a reply, or with a failure."""

    key: str
    body: records.ReplyRecord | records.FailureRecord
    #: Its place among the attempts of the turn.
    number: int = 0
    #: Where it was sent; empty when that is not known.
    provider: str = ""

    @property
    def failed(self) -> bool:
        """Whether it was not answered."""
        return isinstance(self.body, records.FailureRecord)

    def is_like(self, other: RecordedAttempt) -> bool:
        """Whether both were requests of one step to one model."""
        models = [one.body.parameters.get("model") for one in (self, other)]
        return (self.key, self.provider, models[0]) == (other.key, other.provider, models[1])


class TurnRecording(TurnFacts, frozen=False):  # pyright: ignore[reportGeneralTypeIssues]  (msgspec allows it)
    """One turn: its row, its message, the result of every step, and the attempts in their order."""

    message: Any = ""
    #: The records of finished steps by key.
    steps: dict[str, Any] = {}
    #: What may happen when a tool call runs again, by step.
    effects: dict[str, str] = {}
    #: Those that have a part in the result.
    attempts: list[RecordedAttempt] = []
    attempts_made: int = 0
    #: Steps of tools that were recorded before the turn was taken up again.
    earlier: set[str] = set()
    calls: list[StoredCallRow] = []
    #: Its messages by (step, position).
    messages: dict[tuple[int, int], dict[str, Any]] = {}

    @property
    def number(self) -> int:
        """Counted from 1, as people do."""
        return self.ordinal + 1

    @property
    def setup(self) -> records.SetupRecord:
        """The set-up; without content when the turn did not get that far."""
        return self.steps.get("setup", _NO_SETUP)

    @property
    def environment(self) -> dict[str, Any]:
        """Version, plugins and settings it ran with."""
        return self.setup.environment or {}

    def tool_calls(self) -> dict[str, records.CallRecord]:
        """Its tool calls by key, in the order in which replies asked for them."""
        return {key: self.steps[key] for key in sorted(self.steps, key=records.step_place) if key.startswith("tool:")}

    def facts(self) -> PromptFacts:
        """The facts that its prompt was made from."""
        recorded = self.setup.facts
        if recorded is not None:
            known = {name: value for name, value in recorded.items() if name in PromptFacts.__struct_fields__}
            return PromptFacts(**known)
        place = _PLACE.search(self.setup.system)
        return PromptFacts(*place.groups()) if place else PromptFacts()


class Recording(SessionFacts, frozen=True):
    """One recorded session: its row, and the sessions that it delegated to."""

    turns: list[TurnRecording]
    questions: list[QuestionRow]
    children: list[Recording]

    def family(self) -> Iterator[Recording]:
        """This session, then those it delegated to, at any depth."""
        yield self
        for child in self.children:
            yield from child.family()

    def turn(self, number: int) -> TurnRecording:
        """The turn with that number, counted from 1. Raises ``HermesError`` when there is none."""
        found = next((turn for turn in self.turns if turn.number == number), None)
        if found is None:
            raise HermesError(f"session {self.id} has no turn {number}; it has turns 1 to {len(self.turns)}")
        return found


def load_recording(store: Store, session_id: str, *, first_turn: int = 0, with_messages: bool = True) -> Recording:
    """Read a session, by its id or a unique beginning, with its children and its turns from ``first_turn`` on.

    Without its messages it is read faster; they follow from the steps. Raises ``HermesError`` when part of the record
    is missing.
    """
    row = Sessions(store).get(session_id)
    check_size(store, row.id)
    return store.read(lambda connection: _load(connection, row.id, first_turn, with_messages))


def _load(connection: JournalConnection, session_id: str, first_turn: int = 0, with_messages: bool = True) -> Recording:
    session = session_facts(connection, [session_id])[0]
    found = turns_of(connection, session_id, first_turn)
    turns = {one.id: TurnRecording(*astuple(one)) for one in found}
    for event in read_events(connection, session_id, after=found[0].first_seq - 1 if found and first_turn else 0):
        turn = turns.get(event.turn_id)
        if turn is not None:
            _check(event, turn, session_id)
            _add_event(turn, event)
    if with_messages:
        _add_messages(connection, session_id, first_turn, {turn.ordinal: turn for turn in turns.values()})
    for call in calls_of(connection, session_id, with_content=True):
        if call.turn_id in turns:
            turns[call.turn_id].calls.append(call)
    for turn in turns.values():
        _add_providers(turn)
    return Recording(
        *astuple(session),
        turns=list(turns.values()),
        questions=questions_of(connection, session_id),
        children=[_load(connection, child, 0, with_messages) for child in child_ids(connection, session_id)],
    )


def _add_messages(
    connection: JournalConnection, session_id: str, first_turn: int, turns: dict[int, TurnRecording]
) -> None:
    known: dict[str, dict[str, Any]] = {}
    for said in messages_of(connection, session_id, first_turn):
        turn = turns.get(said.turn)
        if turn is None:
            raise HermesError(f"session {session_id} has a message of turn {said.turn + 1}, but no such turn")
        turn.messages[said.step, said.position] = _unpacked(connection, said, turn, session_id, known)


def _unpacked(
    connection: JournalConnection,
    said: StoredMessage,
    turn: TurnRecording,
    session_id: str,
    known: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    try:
        value: Any = unpack(connection, said.body, known)
    except MissingBlob as error:
        record = records.UnreadableRecord(str(error))
    except (ValueError, msgspec.MsgspecError):
        record = records.UnreadableRecord(NOT_JSON)
    else:
        if not (isinstance(value, dict) and "$redacted" in value):
            return cast("dict[str, Any]", value)
        record = records.RedactedRecord()
    raise _unusable(f"message {said.step}.{said.position}", record, turn, session_id)


def _check(event: ReadEvent, turn: TurnRecording, session_id: str) -> None:
    """Raise for an event that a turn cannot be run again with."""
    record = event.record
    if isinstance(record, records.RedactedRecord | records.UnreadableRecord):
        raise _unusable(str(event), record, turn, session_id)
    try:
        if event.kind == records.STEP_DONE:
            records.step_place(event.key)
        _check_plain_parts(record)
    except ValueError:
        raise _unusable(str(event), records.UnreadableRecord("", is_incomplete=True), turn, session_id) from None


def _check_plain_parts(record: object) -> None:
    """Raise ``ValueError`` where plain data in a record does not have what is read from it."""
    if isinstance(record, records.StartRecord):
        msgspec.convert(record.message.get("content"), str | list[dict[str, Any]])
    elif isinstance(record, records.SetupRecord):
        environment = record.environment or {}
        msgspec.convert([tool.get("function") for tool in record.tools], list[_Function])
        msgspec.convert([environment.get("options", {}), environment.get("settings", {})], list[dict[str, Any]])


class _Function(msgspec.Struct):
    """The definition of a tool for the model."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


def _unusable(
    what: str, record: records.RedactedRecord | records.UnreadableRecord, turn: TurnRecording, session_id: str
) -> HermesError:
    place = f"{what} in turn {turn.number} of session {session_id}"
    if isinstance(record, records.RedactedRecord):
        return HermesError(f"{place} was redacted, so that this run can be verified but not run again")
    if record.is_incomplete:
        return HermesError(f"{place} does not have the parts that it needs; the record was changed by hand")
    hint = "" if record.reason == NOT_JSON else f"; 'hermes trace verify {session_id}' lists all"
    return HermesError(f"{place} cannot be read: {record.reason}{hint}")


def _add_event(turn: TurnRecording, event: ReadEvent) -> None:
    record = event.record
    match record:
        case records.StartRecord(message):
            turn.message = message["content"]
        case records.ResumptionRecord():
            while turn.attempts and turn.attempts[-1].failed:
                turn.attempts.pop()  # the failure ended the turn then, and has no part in how it continued
            turn.earlier = {step for step in turn.steps if step.startswith("tool:")}
        case records.FailureRecord() | records.ReplyRecord():
            turn.attempts.append(RecordedAttempt(event.key, record, turn.attempts_made))
            turn.attempts_made += 1
        case _:
            pass
    if event.kind == records.STEP_DONE:
        turn.steps[event.key] = record
        turn.effects[event.key] = event.effect or ""


def _add_providers(turn: TurnRecording) -> None:
    """Attempts are recorded twice: as events, and as rows that name the provider."""
    asked = [call.provider for call in turn.calls if call.status != "crashed" and not is_aside(call.key)]
    if len(asked) == turn.attempts_made:
        turn.attempts = [replace(one, provider=asked[one.number]) for one in turn.attempts]


# -- totals -----------------------------------------------------------------------------------------------------------


class Totals(msgspec.Struct, frozen=True):
    """What a run took, with its children."""

    turns: int
    model_steps: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    #: None when no price was known for any of its calls.
    cost_usd: float | None
    seconds: float


def totals_of(recording: Recording) -> Totals:
    """The totals of a session and those it delegated to. Time is that of the session itself."""
    family = list(recording.family())
    turns = [turn for session in family for turn in session.turns if not turn.undone]
    calls = [call for turn in turns for call in turn.calls]
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    own = [turn for turn in recording.turns if not turn.undone]
    return Totals(
        turns=len(own),
        model_steps=sum(key.startswith("model:") for turn in turns for key in turn.steps),
        tool_calls=sum(len(turn.tool_calls()) for turn in turns),
        input_tokens=sum(call.input_tokens or 0 for call in calls),
        output_tokens=sum(call.output_tokens or 0 for call in calls),
        cost_usd=sum(costs) if costs else None,
        seconds=sum(max((turn.ended_at or turn.started_at) - turn.started_at, 0.0) for turn in own),
    )
