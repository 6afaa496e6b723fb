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
from hermes.trace.journal.turn import TurnRows, compaction_mark, side_call, turn_record
from hermes.trace.records import SessionRecord, ToolStep


def session_record(store: Store, session_id: str, redactor: Redactor | None = None) -> SessionRecord:
    """The session of that very id with all its descendants, as they stand on disk at one instant.

    Raises ``SessionNotFound`` when there is none.
    """
    clean = Cleaner(redactor) if redactor is not None else Cleaner()
    return store.read(lambda connection: _SessionReader(connection, clean).session(session_id).as_of_now())


@dataclass(slots=True)
class _SessionReader:
    """Reads sessions out of one snapshot of the journal."""

    connection: JournalConnection
    clean: Cleaner
    _open: set[str] = field(default_factory=set[str])

    def session(self, session_id: str) -> SessionRecord:
        found = session_facts(self.connection, [session_id])
        if not found:
            raise SessionNotFound(f"no session {session_id!r}; 'hermes trace list' shows those there are")
        facts = found[0]
        session = SessionRecord(
            id=facts.id,
            started_at=facts.created_at,
            platform=facts.platform,
            model=facts.model,
            provider=facts.provider,
            title=self.clean.text(facts.title),
            parent_id=facts.parent_id or "",
            parent_tool_call_id=facts.parent_call or "",
        )
        for turn in self._turns(session, facts):
            session.turns.append(turn_record(turn, self.clean))
        self._add_children(session)
        return session

    def _turns(self, session: SessionRecord, facts: SessionFacts) -> list[TurnRows]:
        """The turns with what belongs to each; fills in what a session has once."""
        turns = [TurnRows(turn) for turn in turns_of(self.connection, session.id)]
        by_id = {turn.row.id: turn for turn in turns}
        self._add_events(session, by_id)
        for call in calls_of(self.connection, session.id):
            if call.turn_id in by_id:
                by_id[call.turn_id].calls.append(call)
            elif not call.turn_id:
                session.side_calls.append(side_call(call, self.clean))
        for question in questions_of(self.connection, session.id):
            if question.kind == "approval" and question.turn_id in by_id:
                by_id[question.turn_id].approvals.append(question)
        # What was said to the model inside a turn by others than the user who asked and the tools.
        for said in messages_of(self.connection, session.id, role="user"):
            if said.step > 0:
                turns[said.turn].said.append((said.step, said.position, unpack(self.connection, said.body)))
        for turn in turns:
            turn.copied = bool(facts.branched_from) and turn.row.started_at < facts.created_at
        return turns

    def _add_events(self, session: SessionRecord, turns: dict[str, TurnRows]) -> None:
        for event in read_events(self.connection, session.id):
            turn, record = turns.get(event.turn_id), event.record
            if isinstance(record, UnreadableRecord):
                raise ValueError(f"{event} of session {session.id} cannot be read: {record.reason}")
            if isinstance(record, Compaction) and event.kind == "compacted":
                session.marks.append(compaction_mark(event.at, record, self.clean))
            elif turn is not None:
                turn.events.append(event)
                if isinstance(record, SetupRecord) and not session.system_prompt:
                    session.system_prompt = self.clean.text(record.system)
                    session.tools = self.clean.value(record.tools)

    def _add_children(self, session: SessionRecord) -> None:
        self._open.add(session.id)
        # A journal that was edited by hand must not cause endless recursion.
        ids = [child for child in child_ids(self.connection, session.id) if child not in self._open]
        calls = {(turn.id, tool.tool_call_id): tool for turn in session.turns for tool in turn.tools()} if ids else {}
        starts = [turn.started_at for turn in session.turns]
        places: dict[str, tuple[float, int]] = {}
        for child in map(self.session, ids):
            at = bisect_right(starts, child.started_at) - 1
            if at >= 0:
                child.parent_turn_id = session.turns[at].id
            tool = calls.get((child.parent_turn_id, child.parent_tool_call_id))
            child.goal = _goal(child, tool)
            # The result lists them in the order in which they were asked for; they began in any.
            place = tool.result.find(child.id) if tool is not None else -1
            places[child.id] = (child.started_at if tool is None else tool.started_at, place)
            session.children.append(child)
        session.children.sort(key=lambda child: places[child.id])
        self._open.discard(session.id)


def _goal(child: SessionRecord, tool: ToolStep | None) -> str:
    """The goal of a child."""
    goal: Any = tool.args.get("goal") if tool is not None else None
    if not isinstance(goal, str) and child.turns:
        goal = child.turns[0].user_message
    return goal if isinstance(goal, str) else ""
