"""Makes the records of a past run from the journal, whatever plugins were enabled at the time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from hermes.errors import SessionNotFound
from hermes.journal.bodies import unpack
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.sanitize import Redactor
from hermes.trace.clean import Cleaner
from hermes.trace.draft import SessionDraft
from hermes.trace.journal.turn import Row, TurnRows, compaction_mark, side_call, turn_record
from hermes.trace.records import SessionRecord, ToolStep

_SESSION = (
    "SELECT id, parent_id, parent_call, platform, title, provider, model, created_at, branched_from FROM sessions "
    "WHERE id = ?"
)
_CHILDREN = "SELECT id FROM sessions WHERE parent_id = ? ORDER BY created_at, id"
_TURNS = "SELECT * FROM turns WHERE session_id = ? AND ordinal >= 0 ORDER BY ordinal"
_EVENTS = "SELECT turn_id, kind, key, body, at FROM events WHERE session_id = ? ORDER BY seq"
_CALLS = "SELECT * FROM model_calls WHERE session_id = ? ORDER BY started_at, api_request_id"
_APPROVALS = (
    "SELECT *, answer AS choice FROM questions WHERE session_id = ? AND kind = 'approval' ORDER BY created_at, id"
)
#: What was said to the model inside a turn by others than the user who asked and the tools.
_SAID = (
    "SELECT turn, step, position, body FROM messages WHERE session_id = ? AND role = 'user' AND step > 0 "
    "ORDER BY turn, step, position"
)


def session_record(store: Store, session_id: str, redactor: Redactor | None = None) -> SessionRecord:
    """The session of that very id with all its descendants, as they stand on disk at one instant.

    Raises ``SessionNotFound`` when there is none.
    """
    clean = Cleaner(redactor) if redactor is not None else Cleaner()
    return store.read(lambda connection: _SessionReader(connection, clean).session(session_id).freeze())


@dataclass(slots=True)
class _SessionReader:
    """Reads sessions out of one snapshot of the journal."""

    connection: JournalConnection
    clean: Cleaner
    _open: set[str] = field(default_factory=set[str])

    def session(self, session_id: str) -> SessionDraft:
        rows = self._rows(_SESSION, session_id)
        if not rows:
            raise SessionNotFound(f"no session {session_id!r}; 'hermes trace list' shows those there are")
        row = rows[0]
        draft = SessionDraft(
            id=row["id"],
            started_at=row["created_at"],
            platform=row["platform"],
            model=row["model"],
            provider=row["provider"],
            title=self.clean.text(row["title"]),
            parent_id=row["parent_id"] or "",
            parent_tool_call_id=row["parent_call"] or "",
        )
        for turn in self._turns(draft, row):
            draft.turns.append(turn_record(turn, self.clean))
        self._add_children(draft)
        return draft

    def _turns(self, draft: SessionDraft, session: Row) -> Iterator[TurnRows]:
        """The turns with what belongs to each; fills in what a session has once."""
        turns = [TurnRows(row) for row in self._rows(_TURNS, draft.id)]
        by_id = {turn.row["id"]: turn for turn in turns}
        for event in self._rows(_EVENTS, draft.id):
            event["body"] = unpack(self.connection, event["body"])
            if event["kind"] == "compacted":
                draft.marks.append(compaction_mark(event, self.clean))
            elif event["turn_id"] in by_id:
                by_id[event["turn_id"]].events.append(event)
                if event["key"] == "setup" and not draft.system_prompt:
                    draft.system_prompt = self.clean.text(event["body"]["system"])
                    draft.tools = tuple(self.clean.value(event["body"]["tools"]))
        for call in self._rows(_CALLS, draft.id):
            if call["turn_id"] in by_id:
                by_id[call["turn_id"]].calls.append(call)
            elif not call["turn_id"]:
                draft.side_calls.append(side_call(call, self.clean))
        for approval in self._rows(_APPROVALS, draft.id):
            if approval["turn_id"] in by_id:
                approval["rules"] = msgspec.json.decode(approval["rules"])
                by_id[approval["turn_id"]].approvals.append(approval)
        for row in self._rows(_SAID, draft.id):
            row["message"] = unpack(self.connection, row["body"])
            ordinal: int = row["turn"]
            turns[ordinal].said.append(row)
        for turn in turns:
            turn.copied = bool(session["branched_from"]) and turn.row["started_at"] < session["created_at"]
        return iter(turns)

    def _add_children(self, draft: SessionDraft) -> None:
        self._open.add(draft.id)
        # A journal that was edited by hand must not cause endless recursion.
        ids = [row["id"] for row in self._rows(_CHILDREN, draft.id) if row["id"] not in self._open]
        calls = {(turn.id, tool.tool_call_id): tool for turn in draft.turns for tool in turn.tools()} if ids else {}
        starts = [turn.started_at for turn in draft.turns]
        places: dict[str, tuple[float, int]] = {}
        for child in map(self.session, ids):
            at = bisect_right(starts, child.started_at) - 1
            if at >= 0:
                child.parent_turn_id = draft.turns[at].id
            tool = calls.get((child.parent_turn_id, child.parent_tool_call_id))
            child.goal = _goal(child, tool)
            # The result lists them in the order in which they were asked for; they began in any.
            place = tool.result.find(child.id) if tool is not None else -1
            places[child.id] = (child.started_at if tool is None else tool.started_at, place)
            draft.children.append(child)
        draft.children.sort(key=lambda child: places[child.id])
        self._open.discard(draft.id)

    def _rows(self, query: str, session_id: str) -> list[Row]:
        cursor = self.connection.execute(query, (session_id,))
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _goal(child: SessionDraft, tool: ToolStep | None) -> str:
    """The goal of a child."""
    goal: Any = tool.args.get("goal") if tool is not None else None
    if not isinstance(goal, str) and child.turns:
        goal = child.turns[0].user_message
    return goal if isinstance(goal, str) else ""
