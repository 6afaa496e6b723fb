"""Timeline of a session for a browser: a row for each turn, model call, tool call, approval, child and mark.

A row is made from one event of the journal, so that a page that is open gets the next rows without reading the session
again. A later row with the same id completes the earlier one: the claim of a tool call begins its row, the result ends
it. Fields that are not set are left out of the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from hermes.base.errors import SessionNotFound
from hermes.journal import records
from hermes.journal.bodies import message_text
from hermes.journal.events import ReadEvent, read_events
from hermes.journal.history.rows import StoredCallRow, calls_of, descendants, session_facts, turns_of
from hermes.journal.questions import GRANTS, QuestionRow, questions_of
from hermes.journal.store.connection import JournalConnection
from hermes.surfaces.web.queries.sessions import IsAlive, SessionLine, lines_of
from hermes.trace.clean import Cleaner

RowKind = Literal["turn", "model", "tool", "approval", "question", "side", "mark"]
RowState = Literal["running", "waiting", "ok", "error", "unknown", "stopped"]

#: Events of a session in the document itself, for browsers without JavaScript.
_EXCERPT = 80
_LONGEST_LABEL = 160
_LONGEST_TEXT = 300
_TURN_STATES: dict[str, RowState] = {"completed": "ok", "failed": "error", "interrupted": "stopped"}

_DAMAGED = "this event cannot be read; 'hermes trace verify' says more"


class Try(Struct, omit_defaults=True):
    """One attempt of a model call that took several."""

    label: str
    start: float
    end: float
    state: RowState
    error: str = ""


class TimelineRow(Struct, omit_defaults=True, kw_only=True):
    """One row. Times are seconds since the epoch."""

    #: The number of the turn, and the key of the step behind a slash: ``0``, ``0/model:1``, ``0/tool:1.0``.
    id: str
    kind: RowKind
    #: The number of the event that has the details; 0 where there is none.
    seq: int = 0
    label: str = ""
    #: What the call was given, or was said, in short.
    text: str = ""
    start: float | None = None
    end: float | None = None
    state: RowState | None = None
    error: str = ""
    #: Of a model call: seconds to the first piece of the answer, tokens, dollars, and its attempts when they were many.
    first: float | None = None
    read: int | None = None
    written: int | None = None
    cached: int = 0
    cost: float | None = None
    tries: list[Try] = []
    #: Of a tool call: the id by which a child names the call that started it.
    call: str = ""
    #: Of a question: the id by which it is answered, and the suggested answers.
    question: str = ""
    choices: list[str] = []


class TimelineRows(Struct, omit_defaults=True, kw_only=True):
    """The rows of one session, and its place in the family."""

    id: str
    head: int
    parent: str = ""
    call: str = ""
    label: str = ""
    start: float = 0.0
    rows: list[TimelineRow] = []


# -- reading --------------------------------------------------------------------------------------------------------


def family_of(connection: JournalConnection, session_id: str) -> list[str]:
    """The session and all it delegated to, parents first. Raises ``SessionNotFound``."""
    found = descendants(connection, session_id)
    if not found:
        raise SessionNotFound(f"no session {session_id!r}; it may have been deleted")
    return found


def session_rows(connection: JournalConnection, session_id: str, clean: Cleaner, after: int = 0) -> TimelineRows:
    """The rows of a session's events with a number above ``after``, with every question of it."""
    found = session_facts(connection, [session_id])
    if not found:
        raise SessionNotFound(f"no session {session_id!r}; it may have been deleted")
    reader = _RowReader(connection, session_id, clean, is_whole=after == 0)
    rows = [*reader.rows(after), *map(reader.question, questions_of(connection, session_id))]
    session = found[0]
    return TimelineRows(
        id=session_id,
        head=session.head_seq,
        parent=session.parent_id or "",
        call=session.parent_call or "",
        label=_short(clean.text(session.title), _LONGEST_LABEL),
        start=session.created_at,
        rows=rows if after else _merged(rows),
    )


def family_rows(
    connection: JournalConnection, session_id: str, is_alive: IsAlive, clean: Cleaner
) -> tuple[SessionLine, list[TimelineRows]]:
    """A session, with the rows of its family. Raises ``SessionNotFound``."""
    family = family_of(connection, session_id)
    line = lines_of(connection, [session_id], is_alive, clean)[0]
    return line, [session_rows(connection, member, clean) for member in family]


def excerpt(
    connection: JournalConnection, session_id: str, is_alive: IsAlive, clean: Cleaner
) -> tuple[SessionLine, TimelineRows]:
    """A session with its last rows, without its children. Raises ``SessionNotFound``."""
    found = lines_of(connection, [session_id], is_alive, clean)
    after = max(0, found[0].head - _EXCERPT) if found else 0
    rows = session_rows(connection, session_id, clean, after)
    return found[0], rows


def _merged(rows: Sequence[TimelineRow]) -> list[TimelineRow]:
    """One row for each id: what a browser would make of them."""
    by_id: dict[str, TimelineRow] = {}
    for row in rows:
        earlier = by_id.get(row.id)
        if earlier is None:
            by_id[row.id] = row
            continue
        if row.kind in ("model", "approval", "question", "side"):
            by_id[row.id] = row
            continue
        if row.kind == "turn" and row.state == "running":
            earlier.end, earlier.error = None, ""
        for name in TimelineRow.__struct_fields__:
            value = getattr(row, name)
            if value is not None and value != "" and value != [] and value != 0:
                setattr(earlier, name, value)
    return list(by_id.values())


class _RowReader:
    """Makes rows of the events of one session."""

    def __init__(self, connection: JournalConnection, session_id: str, clean: Cleaner, *, is_whole: bool) -> None:
        self._connection = connection
        self._id = session_id
        self._clean = clean.text
        turns = turns_of(connection, session_id)
        self._turns = {turn.id: str(turn.ordinal) for turn in turns}
        self._undone = {turn.id for turn in turns if turn.undone}
        #: All attempts at once when the whole session is read, by turn and key.
        self._calls = _by_step(calls_of(connection, session_id)) if is_whole else None

    def rows(self, after: int) -> Iterator[TimelineRow]:
        """The rows of the events with a higher number."""
        for event in read_events(self._connection, self._id, after=after, but="setup"):
            yield from self._of_event(event)
        if self._calls is not None:
            yield from (row for turn_id in ("", *self._turns) for row in self._side_calls(turn_id))

    def _of_event(self, event: ReadEvent) -> Iterator[TimelineRow]:
        turn = self._turns.get(event.turn_id, "")
        match event.record:
            case records.StartRecord(message):
                state: RowState = "stopped" if event.turn_id in self._undone else "running"
                label = self._label(message_text(message))
                yield TimelineRow(id=turn, kind="turn", seq=event.seq, label=label, start=event.at, state=state)
            case records.EndRecord(state=ended, error=error):
                state = _TURN_STATES.get(ended, "ok")
                yield TimelineRow(id=turn, kind="turn", end=event.at, state=state, error=self._short(error or ""))
                if self._calls is None:
                    yield from self._side_calls(event.turn_id)
            case records.ReplyRecord(reply=reply):
                yield from self._reply(event, turn, reply)
            case records.FailureRecord():
                row, attempts = self._attempted(event, turn)
                row.state, row.error = "error", self._short("".join(one.error or "" for one in attempts[-1:]))
                yield row
            case records.ClaimRecord() as call:
                row = self._tool(event, turn, call)
                row.state = "running"
                yield row
            case records.CallRecord() as call:
                yield self._ended_tool(event, turn, call)
            case records.FinalRecord():
                pass
            case _:
                yield from self._mark(event, turn)

    def _mark(self, event: ReadEvent, turn: str) -> Iterator[TimelineRow]:
        """Everything that is no call and does not begin or end a turn."""
        if isinstance(event.record, records.ResumptionRecord):
            yield TimelineRow(id=turn, kind="turn", state="running")
        elif isinstance(event.record, records.UndoingRecord):
            yield TimelineRow(id=turn, kind="turn", state="stopped")
        is_damaged = isinstance(event.record, records.UnreadableRecord)
        yield TimelineRow(
            id=f"{turn}/{event.kind}:{event.seq}",
            kind="mark",
            seq=event.seq,
            label=f"{event.kind} {event.key}" if is_damaged else _mark(event.kind, event.key),
            start=event.at,
            error=_DAMAGED if is_damaged else "",
        )

    def _attempted(self, event: ReadEvent, turn: str) -> tuple[TimelineRow, list[StoredCallRow]]:
        """The row of a model call, with its attempts so far."""
        attempts = self._attempts(event.turn_id, event.key)
        at = event.at
        row = TimelineRow(id=f"{turn}/{event.key}", kind="model", seq=event.seq, start=at, end=at, state="ok")
        if attempts:
            first, last = attempts[0], attempts[-1]
            row.label = f"{last.model} ({last.provider})" if last.provider else last.model
            row.start, row.end, row.first = first.started_at, last.ended_at, last.first_token
            row.read, row.written, row.cost = last.read_tokens, last.output_tokens, last.cost_usd
            row.cached = last.cache_read_tokens or 0
            if len(attempts) > 1 or last.status != "ok":
                row.tries = [self._try(one) for one in attempts]
        return row, attempts

    def _reply(self, event: ReadEvent, turn: str, reply: records.StoredReply) -> Iterator[TimelineRow]:
        row, _ = self._attempted(event, turn)
        row.text = self._short(reply.content or ", ".join(call.name for call in reply.tool_calls))
        yield row
        step = event.key.partition(":")[2]
        for index, call in enumerate(reply.tool_calls):
            yield TimelineRow(
                id=f"{turn}/tool:{step}.{index}",
                kind="tool",
                seq=event.seq,
                label=call.name,
                text=self._short(call.arguments),
                call=call.id,
                start=event.at,
                state="running",
            )

    def _tool(self, event: ReadEvent, turn: str, call: records.ClaimRecord | records.CallRecord) -> TimelineRow:
        text = self._short(msgspec.json.encode(call.args).decode())
        return TimelineRow(
            id=f"{turn}/{event.key}",
            kind="tool",
            seq=event.seq,
            label=call.name,
            text=text,
            call=call.id,
            start=event.at,
        )

    def _ended_tool(self, event: ReadEvent, turn: str, call: records.CallRecord) -> TimelineRow:
        row = self._tool(event, turn, call)
        is_unknown = call.error_type in ("unknown_outcome", "not_run")
        row.start = None if is_unknown else event.at - call.duration_ms / 1000
        row.end, row.error, row.state = event.at, self._short(call.error_message or ""), _tool_state(call)
        return row

    def _side_calls(self, turn_id: str) -> Iterator[TimelineRow]:
        """What models were asked beside the conversation."""
        steps = self._calls
        if steps is None:
            steps = _by_step(calls_of(self._connection, self._id, turn_id=turn_id))
        for (of, key), calls in steps.items():
            if of != turn_id or key.startswith("model:"):
                continue
            label = key.removeprefix("side:").replace("plugin:", "plugin ")
            for call in calls:
                yield TimelineRow(
                    id=f"{self._turns.get(turn_id, '')}/{call.api_request_id}",
                    kind="side",
                    label=f"{label}: {call.model}",
                    start=call.started_at,
                    end=call.ended_at,
                    state="ok" if call.status == "ok" else "error",
                    error=self._short(call.error or ""),
                    read=call.read_tokens,
                    written=call.output_tokens,
                    cost=call.cost_usd,
                    first=call.first_token,
                )

    def question(self, row: QuestionRow) -> TimelineRow:
        """A question of the session, as it stands."""
        is_open, is_approval = row.state == "pending", row.kind == "approval"
        state: RowState = "error" if is_approval else "ok"
        if is_open:
            state = "waiting"
        elif row.answer in GRANTS:
            state = "ok"
        elif row.state == "revoked":
            state = "stopped"
        result = [row.answer or row.state, row.reason and f"({row.reason})", f"at {row.surface}"]
        return TimelineRow(
            id=f"{self._turns.get(row.turn_id, '')}/{row.key}/{row.id}",
            kind="approval" if is_approval else "question",
            label=self._short(row.description if is_approval else row.subject),
            text=self._short(f"{row.tool}: {row.subject}" if is_approval else row.answer or ""),
            start=row.created_at,
            end=row.answered_at,
            state=state,
            error="" if is_open else self._short(" ".join(filter(None, result))),
            question=row.id if is_open else "",
            choices=[self._short(one) for one in row.choices] if is_open else [],
        )

    # -- attempts -----------------------------------------------------------------------------------------------

    def _attempts(self, turn_id: str, key: str) -> list[StoredCallRow]:
        if self._calls is not None:
            return self._calls.get((turn_id, key), [])
        return calls_of(self._connection, self._id, turn_id=turn_id, key=key)

    def _try(self, call: StoredCallRow) -> Try:
        state: RowState = "ok" if call.status == "ok" else "error"
        return Try(call.model, call.started_at, call.ended_at, state, self._short(call.error or ""))

    # -- texts --------------------------------------------------------------------------------------------------

    def _label(self, text: str) -> str:
        return _short(self._clean(text[: _LONGEST_LABEL * 8]), _LONGEST_LABEL)

    def _short(self, text: str) -> str:
        # Redacted before it is cut, with room for a secret that begins inside.
        return _short(self._clean(text[: _LONGEST_TEXT * 8]), _LONGEST_TEXT)


def _by_step(calls: Sequence[StoredCallRow]) -> dict[tuple[str, str], list[StoredCallRow]]:
    """Model calls by their turn and key."""
    found: dict[tuple[str, str], list[StoredCallRow]] = {}
    for call in calls:
        found.setdefault((call.turn_id, call.key), []).append(call)
    return found


def _tool_state(body: records.CallRecord) -> RowState:
    if body.error_type == "unknown_outcome":
        return "unknown"
    if body.status == "ok":
        return "ok"
    return "stopped" if body.status in ("cancelled", "blocked") or body.error_type == "not_run" else "error"


def _mark(kind: str, key: str) -> str:
    if kind == "step_done":
        names = {"compact": "compacted", "steer": "message added", "verify": "checked by a plugin"}
        return names.get(key.partition(":")[0], key)
    return kind.removeprefix("turn_").replace("_", " ")


def _short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
