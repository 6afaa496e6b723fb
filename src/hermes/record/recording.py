"""A recorded run as data: a session with its turns, steps, side calls, questions and child sessions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import msgspec

from hermes.agent.context.inputs import PromptFacts
from hermes.errors import HermesError
from hermes.journal.bodies import MissingBlob, unpack
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import is_aside
from hermes.record.rows import check_size
from hermes.record.shapes import SHAPES

_EVENTS = (
    "SELECT seq, turn_id, kind, key, effect, body, at FROM events "
    "WHERE session_id = ? AND seq >= ? AND turn_id <> '' ORDER BY seq"
)
_TURNS = (
    "SELECT id, ordinal, task_id, request_key, source, state, undone, first_seq, started_at, ended_at, answer, error "
    "FROM turns WHERE session_id = ? AND ordinal >= ? ORDER BY ordinal"
)
_CALLS = (
    "SELECT turn_id, key, provider, model, status, duration, input_tokens, output_tokens, cost_usd, error, content "
    "FROM model_calls WHERE session_id = ? ORDER BY started_at, api_request_id"
)
_MESSAGES = (
    "SELECT turn, step, position, body FROM messages WHERE session_id = ? AND turn >= ? ORDER BY turn, step, position"
)
_QUESTIONS = (
    "SELECT turn_id, key, digest, surface, kind, answer, reason FROM questions WHERE session_id = ? ORDER BY rowid"
)
_STEP = re.compile(r"[a-z_]+(:\d+(\.\d+)?)?")
#: The facts in a prompt that was recorded without them.
_PLACE = re.compile(r"^Working directory: (.*)\nSystem: (.*), shell (.*)\nDate: (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One request to a model, as it ended: with a reply, or with a failure."""

    key: str
    body: dict[str, Any]
    failed: bool = False
    #: Its place among the attempts of the turn.
    number: int = 0
    #: Where it was sent; empty when that is not known.
    provider: str = ""

    def is_like(self, other: RecordedAttempt) -> bool:
        """Whether both were requests of one step to one model."""
        models = [one.body.get("parameters", {}).get("model") for one in (self, other)]
        return (self.key, self.provider, models[0]) == (other.key, other.provider, models[1])


@dataclass(frozen=True, slots=True)
class CallRow:
    """Usage and time of one request to a model. ``content`` is what was asked and answered beside the conversation."""

    key: str
    provider: str
    model: str
    status: str
    duration: float
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    error: str | None = None
    content: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RecordedQuestion:
    """An approval or a question of the model, with its answer."""

    turn_id: str
    key: str
    digest: str
    surface: str
    kind: str
    answer: str | None
    reason: str


@dataclass(slots=True)
class TurnRecording:
    """One turn: its message, the result of every step, and the attempts in their order."""

    id: str
    #: Counted from 0.
    ordinal: int
    task_id: str
    request_key: str
    source: str
    state: str
    undone: bool
    started_at: float
    ended_at: float | None
    answer: str | None
    error: str | None
    message: Any = ""
    steps: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    #: What may happen when a tool call runs again, by step.
    effects: dict[str, str] = field(default_factory=dict[str, str])
    #: Those that have a part in the result.
    attempts: list[RecordedAttempt] = field(default_factory=list[RecordedAttempt])
    attempts_made: int = 0
    #: Steps of tools that were recorded before the turn was taken up again.
    earlier: set[str] = field(default_factory=set[str])
    calls: list[CallRow] = field(default_factory=list[CallRow])
    #: Its messages by (step, position).
    messages: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict[tuple[int, int], dict[str, Any]])

    @property
    def number(self) -> int:
        """Counted from 1, as people do."""
        return self.ordinal + 1

    @property
    def setup(self) -> dict[str, Any]:
        """The set-up; empty when the turn did not get that far."""
        return self.steps.get("setup", {})

    @property
    def environment(self) -> dict[str, Any]:
        """Version, plugins and settings it ran with."""
        return self.setup.get("environment") or {}

    def facts(self) -> PromptFacts:
        """The facts that its prompt was made from."""
        recorded = self.setup.get("facts")
        if recorded is not None:
            known = {name: value for name, value in recorded.items() if name in PromptFacts.__struct_fields__}
            return PromptFacts(**known)
        place = _PLACE.search(self.setup.get("system", ""))
        return PromptFacts(*place.groups()) if place else PromptFacts()


@dataclass(slots=True)
class Recording:
    """One recorded session, with the sessions that it delegated to."""

    id: str
    title: str
    cwd: str
    platform: str
    provider: str
    model: str
    principal: str
    parent_id: str | None
    parent_call: str | None
    turns: list[TurnRecording]
    questions: list[RecordedQuestion]
    children: list[Recording] = field(default_factory=list["Recording"])

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
    query = "SELECT id, title, cwd, platform, provider, model, principal, parent_id, parent_call FROM sessions "
    row = connection.execute(f"{query} WHERE id = ?", (session_id,)).fetchone()
    found = connection.execute(_TURNS, (session_id, first_turn)).fetchall()
    turns = {one[0]: _turn(one) for one in found}
    events = connection.execute(_EVENTS, (session_id, found[0][7] if found and first_turn else 0)).fetchall()
    known: dict[str, dict[str, Any]] = {}
    for seq, turn_id, kind, key, effect, body, _at in events:
        turn = turns.get(turn_id)
        if turn is not None:
            value = _unpacked(connection, body, _BodyPlace(session_id, turn, seq, kind, key, known))
            if not _is_whole(kind, key, value):
                raise HermesError(
                    f"event {seq} ({f'{kind} {key}'.strip()}) of session {session_id} does not have the parts that it "
                    "needs; the record was changed by hand"
                )
            _add_event(turn, kind, key, effect, value)
    by_ordinal = {turn.ordinal: turn for turn in turns.values()}
    messages = connection.execute(_MESSAGES, (session_id, first_turn)).fetchall() if with_messages else ()
    for ordinal, step, position, body in messages:
        turn = by_ordinal.get(ordinal)
        if turn is None:
            raise HermesError(f"session {session_id} has a message of turn {ordinal + 1}, but no such turn")
        turn.messages[step, position] = _unpacked(
            connection, body, _BodyPlace(session_id, turn, 0, "message", (step, position), known)
        )
    for turn_id, *call, content in connection.execute(_CALLS, (session_id,)).fetchall():
        turn = turns.get(turn_id)
        if turn is not None:
            turn.calls.append(_call(connection, call, content))
    for turn in turns.values():
        _add_providers(turn)
    questions = [RecordedQuestion(*one) for one in connection.execute(_QUESTIONS, (session_id,)).fetchall()]
    parts: tuple[Any, ...] = (*row, list(turns.values()), questions)
    recording = Recording(*parts)
    children = connection.execute("SELECT id FROM sessions WHERE parent_id = ? ORDER BY rowid", (session_id,))
    recording.children = [_load(connection, child, 0, with_messages) for (child,) in children.fetchall()]
    return recording


def _turn(row: tuple[Any, ...]) -> TurnRecording:
    identity, ordinal, task_id, request_key, source, state, undone, _first, started_at, ended_at, answer, error = row
    ids = (identity, ordinal, task_id, request_key, source)
    return TurnRecording(*ids, state, bool(undone), started_at, ended_at, answer, error)


class _BodyPlace(NamedTuple):
    """Where a body is in the record, for errors. An event has a number, a message a step and a position."""

    session_id: str
    turn: TurnRecording
    seq: int
    kind: str
    key: str | tuple[int, int]
    #: What several bodies share.
    known: dict[str, dict[str, Any]]

    def __str__(self) -> str:
        place = self.key if isinstance(self.key, str) else f"{self.key[0]}.{self.key[1]}"
        name = f"{self.kind} {place}".strip()
        what = f"event {self.seq} ({name})" if self.seq else name
        return f"{what} in turn {self.turn.number} of session {self.session_id}"


def _unpacked(connection: JournalConnection, body: str, place: _BodyPlace) -> dict[str, Any]:
    try:
        value: Any = unpack(connection, body, place.known)
    except MissingBlob as error:
        raise HermesError(
            f"{place} cannot be read: {error}; 'hermes trace verify {place.session_id}' lists all"
        ) from None
    except (ValueError, msgspec.MsgspecError):
        raise HermesError(f"{place} cannot be read: it is not JSON; the journal was changed by hand") from None
    if isinstance(value, dict) and "$redacted" in value:
        raise HermesError(f"{place} was redacted, so that this run can be verified but not run again")
    return cast("dict[str, Any]", value)


def _is_whole(kind: str, key: str, body: Any) -> bool:
    """Whether an event has what is read from it."""
    if kind == "step_done" and _STEP.fullmatch(key) is None:
        return False
    shape = SHAPES.get(key.partition(":")[0] if kind == "step_done" else kind)
    try:
        msgspec.convert(body, shape or dict[str, Any])
    except msgspec.ValidationError:
        return False
    return True


def _add_event(turn: TurnRecording, kind: str, key: str, effect: str | None, body: dict[str, Any]) -> None:
    if kind == "turn_started":
        turn.message = body["message"]["content"]
    elif kind == "turn_resumed":
        while turn.attempts and turn.attempts[-1].failed:
            turn.attempts.pop()  # the failure ended the turn then, and has no part in how it continued
        turn.earlier = {step for step in turn.steps if step.startswith("tool:")}
    elif kind == "attempt_failed":
        turn.attempts.append(RecordedAttempt(key, body, True, turn.attempts_made))
        turn.attempts_made += 1
    elif kind == "step_done":
        turn.steps[key] = body
        turn.effects[key] = effect or ""
        if key.startswith("model:"):
            turn.attempts.append(RecordedAttempt(key, body, False, turn.attempts_made))
            turn.attempts_made += 1


def _add_providers(turn: TurnRecording) -> None:
    """Attempts are recorded twice: as events, and as rows that name the provider."""
    asked = [call.provider for call in turn.calls if call.status != "crashed" and not is_aside(call.key)]
    if len(asked) == turn.attempts_made:
        turn.attempts = [replace(one, provider=asked[one.number]) for one in turn.attempts]


def _call(connection: JournalConnection, row: list[Any], content: str | None) -> CallRow:
    key, provider, model, status, duration, read, written, cost, error = row
    asked: dict[str, Any] | None = None
    if content and is_aside(key):
        found = connection.execute("SELECT data FROM blobs WHERE sha256 = ?", (content,)).fetchone()
        asked = msgspec.json.decode(found[0]) if found else None
    return CallRow(key, provider, model, status, duration, read or 0, written or 0, cost, error, asked)
