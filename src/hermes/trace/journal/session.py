"""Makes the records of a past run from the journal, whatever plugins were enabled at the time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from hermes.base.errors import SessionNotFound
from hermes.base.sanitize import Redactor
from hermes.journal.bodies import unpack
from hermes.journal.events import read_events
from hermes.journal.history.rows import (
    SessionFacts,
    calls_of,
    child_ids,
    messages_of,
    session_facts,
    turns_of,
)
from hermes.journal.questions import questions_of
from hermes.journal.records import Compaction, SetupRecord, UnreadableRecord
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.trace.clean import Cleaner
from hermes.trace.draft import SessionDraft
from hermes.trace.journal.turn import TurnRows, compaction_mark, side_call, turn_record
from hermes.trace.records import SessionRecord, ToolStep


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
        found = session_facts(self.connection, [session_id])
        if not found:
            raise SessionNotFound(f"no session {session_id!r}; 'hermes trace list' shows those there are")
        session = found[0]
        draft = SessionDraft(
            id=session.id,
            started_at=session.created_at,
            platform=session.platform,
            model=session.model,
            provider=session.provider,
            title=self.clean.text(session.title),
            parent_id=session.parent_id or "",
            parent_tool_call_id=session.parent_call or "",
        )
        for turn in self._turns(draft, session):
            draft.turns.append(turn_record(turn, self.clean))
        self._add_children(draft)
        return draft

    def _turns(self, draft: SessionDraft, session: SessionFacts) -> list[TurnRows]:
        """The turns with what belongs to each; fills in what a session has once."""
        turns = [TurnRows(turn) for turn in turns_of(self.connection, draft.id)]
        by_id = {turn.row.id: turn for turn in turns}
        self._add_events(draft, by_id)
        for call in calls_of(self.connection, draft.id):
            if call.turn_id in by_id:
                by_id[call.turn_id].calls.append(call)
            elif not call.turn_id:
                draft.side_calls.append(side_call(call, self.clean))
        for question in questions_of(self.connection, draft.id):
            if question.kind == "approval" and question.turn_id in by_id:
                by_id[question.turn_id].approvals.append(question)
        # What was said to the model inside a turn by others than the user who asked and the tools.
        for said in messages_of(self.connection, draft.id, role="user"):
            if said.step > 0:
                turns[said.turn].said.append((said.step, said.position, unpack(self.connection, said.body)))
        for turn in turns:
            turn.copied = bool(session.branched_from) and turn.row.started_at < session.created_at
        return turns

    def _add_events(self, draft: SessionDraft, turns: dict[str, TurnRows]) -> None:
        for event in read_events(self.connection, draft.id):
            turn, record = turns.get(event.turn_id), event.record
            if isinstance(record, UnreadableRecord):
                raise ValueError(f"{event} of session {draft.id} cannot be read: {record.reason}")
            if isinstance(record, Compaction) and event.kind == "compacted":
                draft.marks.append(compaction_mark(event.at, record, self.clean))
            elif turn is not None:
                turn.events.append(event)
                if isinstance(record, SetupRecord) and not draft.system_prompt:
                    draft.system_prompt = self.clean.text(record.system)
                    draft.tools = tuple(self.clean.value(record.tools))

    def _add_children(self, draft: SessionDraft) -> None:
        self._open.add(draft.id)
        # A journal that was edited by hand must not cause endless recursion.
        ids = [child for child in child_ids(self.connection, draft.id) if child not in self._open]
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


def _goal(child: SessionDraft, tool: ToolStep | None) -> str:
    """The goal of a child."""
    goal: Any = tool.args.get("goal") if tool is not None else None
    if not isinstance(goal, str) and child.turns:
        goal = child.turns[0].user_message
    return goal if isinstance(goal, str) else ""
