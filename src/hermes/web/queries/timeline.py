"""Timeline of a session for a browser: a row for each turn, model call, tool call, approval, child and mark.

A row is made from one event of the journal, so that a page that is open gets the next rows without reading the session
again. A later row with the same id completes the earlier one: the claim of a tool call begins its row, the result ends
it. Fields that are not set are left out of the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from hermes.errors import SessionNotFound
from hermes.journal.bodies import message_text
from hermes.journal.questions import GRANTS
from hermes.journal.store.connection import JournalConnection
from hermes.trace.clean import Cleaner

RowKind = Literal["turn", "model", "tool", "approval", "question", "side", "mark"]
RowState = Literal["running", "waiting", "ok", "error", "unknown", "stopped"]

_LONGEST_LABEL = 160
_LONGEST_TEXT = 300

#: A body that is stored as a blob is read from there; the digest begins after ``{"$blob":"``.
_EVENTS = """
    SELECT e.seq, e.turn_id, e.kind, e.key, coalesce(b.data, e.body), e.at FROM events e
    LEFT JOIN blobs b ON b.sha256 = substr(e.body, 11, 64) AND substr(e.body, 1, 10) = '{"$blob":"'
    WHERE e.session_id = ? AND e.seq > ? AND e.key <> 'setup' ORDER BY e.seq
"""
_TURNS = "SELECT id, ordinal, undone FROM turns WHERE session_id = ?"
_CALLS = (
    "SELECT turn_id, key, api_request_id, provider, model, status, error, started_at, duration, first_token, "
    "input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cost_usd FROM model_calls "
    "WHERE session_id = ? {condition} ORDER BY started_at, api_request_id"
)
_QUESTION_COLUMNS = (
    *("id", "turn_id", "key", "kind", "tool", "subject", "description", "surface", "state", "answer", "reason"),
    *("created_at", "answered_at", "choices"),
)
_QUESTIONS = f"SELECT {', '.join(_QUESTION_COLUMNS)} FROM questions WHERE session_id = ? ORDER BY created_at, id"
_SESSION = "SELECT parent_id, parent_call, title, created_at, head_seq FROM sessions WHERE id = ?"
#: A child is used after its parent was made, so that the index of recent sessions finds it.
_CHILDREN = "SELECT id FROM sessions WHERE updated_at >= ? AND parent_id = ? ORDER BY created_at, id"


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


# -- stored bodies --------------------------------------------------------------------------------------------------


class _RequestedCall(Struct):
    id: str = ""
    name: str = ""
    arguments: str = ""


class _Reply(Struct):
    content: str = ""
    tool_calls: list[_RequestedCall] | None = None


class _ModelBody(Struct):
    reply: _Reply = msgspec.field(default_factory=_Reply)


class _ToolEventBody(Struct):
    """A claim or a result; the result itself is skipped."""

    id: str = ""
    name: str = ""
    args: msgspec.Raw = msgspec.Raw(b"{}")
    status: str = ""
    error_type: str | None = None
    error_message: str | None = None
    duration_ms: float = 0


_model_body = msgspec.json.Decoder(_ModelBody).decode
_tool_body = msgspec.json.Decoder(_ToolEventBody).decode
_any_body = msgspec.json.Decoder().decode

_Event = tuple[int, str, str, str, str, float]


# -- reading --------------------------------------------------------------------------------------------------------


def family_of(connection: JournalConnection, session_id: str) -> list[str]:
    """The session and all it delegated to, parents first. Raises ``SessionNotFound``."""
    row = connection.execute("SELECT created_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise SessionNotFound(f"no session {session_id!r}; it may have been deleted")
    found, place = [session_id], 0
    while place < len(found):
        children = connection.execute(_CHILDREN, (row[0], found[place])).fetchall()
        found += [child for (child,) in children if child not in found]
        place += 1
    return found


def session_rows(connection: JournalConnection, session_id: str, clean: Cleaner, after: int = 0) -> TimelineRows:
    """The rows of a session's events with a number above ``after``, with every question of it."""
    found = connection.execute(_SESSION, (session_id,)).fetchone()
    if found is None:
        raise SessionNotFound(f"no session {session_id!r}; it may have been deleted")
    reader = _RowReader(connection, session_id, clean, is_whole=after == 0)
    rows = [*reader.rows(after), *reader.questions()]
    parent, call, title, created_at, head = found
    return TimelineRows(
        id=session_id,
        head=head,
        parent=parent or "",
        call=call or "",
        label=_short(clean.text(title), _LONGEST_LABEL),
        start=created_at,
        rows=rows if after else _merged(rows),
    )


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
        turns = connection.execute(_TURNS, (session_id,)).fetchall()
        self._turns: dict[str, str] = {turn_id: str(ordinal) for turn_id, ordinal, _ in turns}
        self._undone = {turn_id for turn_id, _, undone in turns if undone}
        #: All attempts at once when the whole session is read.
        self._calls = self._grouped(_CALLS.format(condition="")) if is_whole else None

    def rows(self, after: int) -> Iterator[TimelineRow]:
        """The rows of the events with a higher number."""
        for event in self._connection.execute(_EVENTS, (self._id, after)).fetchall():
            try:
                yield from self._of_event(event)
            except (msgspec.DecodeError, KeyError, TypeError, ValueError):
                seq, turn_id, kind, key, _, at = event
                name = f"{self._turns.get(turn_id, '')}/{kind}:{seq}"
                error = "this event cannot be read; 'hermes trace verify' says more"
                yield TimelineRow(id=name, kind="mark", seq=seq, label=f"{kind} {key}", start=at, error=error)
        if self._calls is not None:
            yield from (row for turn_id in ("", *self._turns) for row in self._side_calls(turn_id))

    def _of_event(self, event: _Event) -> Iterator[TimelineRow]:
        seq, turn_id, kind, key, body, at = event
        turn = self._turns.get(turn_id, "")
        what = key.partition(":")[0]
        name = f"{turn}/{key}"
        if kind == "turn_started":
            message: dict[str, Any] = _any_body(body)["message"]
            state: RowState = "stopped" if turn_id in self._undone else "running"
            yield TimelineRow(
                id=turn, kind="turn", seq=seq, label=self._label(message_text(message)), start=at, state=state
            )
        elif kind == "turn_ended":
            ended = _any_body(body)
            states: dict[str, RowState] = {"completed": "ok", "failed": "error", "interrupted": "stopped"}
            yield TimelineRow(
                id=turn, kind="turn", end=at, state=states.get(ended["state"], "ok"), error=self._error(ended)
            )
            if self._calls is None:
                yield from self._side_calls(turn_id)
        elif what == "model" and kind in ("step_done", "attempt_failed"):
            yield from self._model(turn_id, name, kind, seq, body, at)
        elif what in ("tool", "dispatch"):
            yield self._tool(name, kind, seq, _tool_body(body), at)
        elif what == "final":
            return
        else:
            if kind == "turn_resumed":
                yield TimelineRow(id=turn, kind="turn", state="running")
            elif kind == "turn_undone":
                yield TimelineRow(id=turn, kind="turn", state="stopped")
            yield TimelineRow(id=f"{turn}/{kind}:{seq}", kind="mark", seq=seq, label=_mark(kind, key), start=at)

    def _model(self, turn_id: str, name: str, kind: str, seq: int, body: str, at: float) -> Iterator[TimelineRow]:
        attempts = self._attempts(turn_id, name.partition("/")[2])
        row = TimelineRow(id=name, kind="model", seq=seq, start=at, end=at, state="ok")
        if attempts:
            first, last = attempts[0], attempts[-1]
            row.label = f"{last['model']} ({last['provider']})" if last["provider"] else last["model"]
            row.start, row.end, row.first = first["start"], last["end"], last["first_token"]
            row.read, row.written, row.cost = last["read"], last["output_tokens"], last["cost_usd"]
            row.cached = last["cache_read_tokens"] or 0
            if len(attempts) > 1 or last["status"] != "ok":
                row.tries = [self._try(one) for one in attempts]
        if kind == "attempt_failed":
            row.state, row.error = "error", self._short(attempts[-1]["error"] if attempts else "")
            yield row
            return
        reply = _model_body(body).reply
        calls = reply.tool_calls or []
        row.text = self._short(reply.content or ", ".join(call.name for call in calls))
        yield row
        turn, _, key = name.partition("/model:")
        for index, call in enumerate(calls):
            yield TimelineRow(
                id=f"{turn}/tool:{key}.{index}",
                kind="tool",
                seq=seq,
                label=call.name,
                text=self._short(call.arguments),
                call=call.id,
                start=at,
                state="running",
            )

    def _tool(self, name: str, kind: str, seq: int, body: _ToolEventBody, at: float) -> TimelineRow:
        row = TimelineRow(id=name, kind="tool", seq=seq, label=body.name, call=body.id, start=at)
        row.text = self._short(bytes(body.args).decode("utf-8", "replace"))
        if kind.endswith("_claimed"):
            row.state = "running"
            return row
        row.start = None if body.error_type in ("unknown_outcome", "not_run") else at - body.duration_ms / 1000
        row.end, row.error = at, self._short(body.error_message or "")
        row.state = _tool_state(body)
        return row

    def _side_calls(self, turn_id: str) -> Iterator[TimelineRow]:
        """What models were asked beside the conversation."""
        if self._calls is not None:
            keys = [key for (of, key) in self._calls if of == turn_id and not key.startswith("model:")]
            calls = [call for key in keys for call in self._calls[turn_id, key]]
        else:
            condition = "AND turn_id = ? AND substr(key, 1, 6) <> 'model:'"
            grouped = self._grouped(_CALLS.format(condition=condition), turn_id)
            calls = [call for group in grouped.values() for call in group]
        for call in calls:
            key: str = call["key"]
            label = key.removeprefix("side:").replace("plugin:", "plugin ")
            yield TimelineRow(
                id=f"{self._turns.get(turn_id, '')}/{call['id']}",
                kind="side",
                label=f"{label}: {call['model']}",
                start=call["start"],
                end=call["end"],
                state="ok" if call["status"] == "ok" else "error",
                error=self._short(call["error"]),
                read=call["read"],
                written=call["output_tokens"],
                cost=call["cost_usd"],
                first=call["first_token"],
            )

    def questions(self) -> Iterator[TimelineRow]:
        """The questions of the session, as they stand."""
        for row in self._connection.execute(_QUESTIONS, (self._id,)).fetchall():
            yield self._question(dict(zip(_QUESTION_COLUMNS, row, strict=True)))

    def _question(self, row: dict[str, Any]) -> TimelineRow:
        is_open, is_approval = row["state"] == "pending", row["kind"] == "approval"
        state: RowState = "error" if is_approval else "ok"
        if is_open:
            state = "waiting"
        elif row["answer"] in GRANTS:
            state = "ok"
        elif row["state"] == "revoked":
            state = "stopped"
        result = [row["answer"] or row["state"], row["reason"] and f"({row['reason']})", f"at {row['surface']}"]
        return TimelineRow(
            id=f"{self._turns.get(row['turn_id'], '')}/{row['key']}/{row['id']}",
            kind="approval" if is_approval else "question",
            label=self._short(row["description"] if is_approval else row["subject"]),
            text=self._short(f"{row['tool']}: {row['subject']}" if is_approval else row["answer"] or ""),
            start=row["created_at"],
            end=row["answered_at"],
            state=state,
            error="" if is_open else self._short(" ".join(filter(None, result))),
            question=row["id"] if is_open else "",
            choices=[self._short(one) for one in msgspec.json.decode(row["choices"], type=list[str])]
            if is_open
            else [],
        )

    # -- attempts -----------------------------------------------------------------------------------------------

    def _attempts(self, turn_id: str, key: str) -> list[dict[str, Any]]:
        if self._calls is not None:
            return self._calls.get((turn_id, key), [])
        grouped = self._grouped(_CALLS.format(condition="AND turn_id = ? AND key = ?"), turn_id, key)
        return grouped.get((turn_id, key), [])

    def _grouped(self, query: str, *values: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in self._connection.execute(query, (self._id, *values)).fetchall():
            (turn_id, key, name, provider, model, status, error, start, took, first, new, out, cached, put, cost) = row
            known = [part for part in (new, cached, put) if part is not None]
            call = {
                "id": name,
                "key": key,
                "provider": provider,
                "model": model,
                "status": status,
                "error": error or "",
                "start": start,
                "end": start + took,
                "first_token": first,
                "read": sum(known) if known else None,
                "output_tokens": out,
                "cache_read_tokens": cached,
                "cost_usd": cost,
            }
            found.setdefault((turn_id, key), []).append(call)
        return found

    def _try(self, call: dict[str, Any]) -> Try:
        state: RowState = "ok" if call["status"] == "ok" else "error"
        return Try(call["model"], call["start"], call["end"], state, self._short(call["error"]))

    # -- texts --------------------------------------------------------------------------------------------------

    def _label(self, text: str) -> str:
        return _short(self._clean(text[: _LONGEST_LABEL * 8]), _LONGEST_LABEL)

    def _short(self, text: str) -> str:
        # Redacted before it is cut, with room for a secret that begins inside.
        return _short(self._clean(text[: _LONGEST_TEXT * 8]), _LONGEST_TEXT)

    def _error(self, body: dict[str, Any]) -> str:
        return self._short(cast("str", body.get("error") or ""))


def _tool_state(body: _ToolEventBody) -> RowState:
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
