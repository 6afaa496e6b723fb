"""Makes the records of a past run from the journal, whatever plugins were enabled at the time."""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from typing import Any, cast

from hermes.base.errors import SessionNotFound
from hermes.base.sanitize import Redactor
from hermes.journal import records
from hermes.journal.bodies import unpack
from hermes.journal.events import ReadEvent, read_events
from hermes.journal.history.rows import (
    SessionFacts,
    StoredCallRow,
    TurnFacts,
    calls_of,
    child_ids,
    messages_of,
    session_facts,
    turns_of,
)
from hermes.journal.questions import QuestionRow, questions_of
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.trace.clean import Cleaner
from hermes.trace.conversation import summary_in
from hermes.trace.records import (
    ApprovalRecord,
    AttemptRecord,
    Mark,
    ModelStep,
    RunStatus,
    SessionRecord,
    SideCall,
    ToolCallRecord,
    ToolStep,
    TurnRecord,
    UsageRecord,
    put_ended,
)


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
        self._add_turns(session, facts)
        self._add_children(session)
        return session

    def _add_turns(self, session: SessionRecord, facts: SessionFacts) -> None:
        """The turns, with what belongs to each, and what a session has once."""
        turns: dict[str, _TurnAssembly] = {}
        for row in turns_of(self.connection, session.id):
            copied = bool(facts.branched_from) and row.started_at < facts.created_at
            turns[row.id] = _TurnAssembly(row, copied, self.clean)
            session.turns.append(turns[row.id].turn)
        for call in calls_of(self.connection, session.id):
            if call.turn_id in turns:
                turns[call.turn_id].add_call(call)
            elif not call.turn_id:
                session.side_calls.append(_side_call(call, self.clean))
        self._add_events(session, turns)
        for question in questions_of(self.connection, session.id):
            if question.kind == "approval" and question.turn_id in turns:
                turns[question.turn_id].add_approval(question)
        # What was said to the model inside a turn by others than the user who asked and the tools.
        for said in messages_of(self.connection, session.id, role="user"):
            if said.step > 0:
                message = unpack(self.connection, said.body)
                turns[session.turns[said.turn].id].add_message(said.step, said.position, message)

    def _add_events(self, session: SessionRecord, turns: dict[str, _TurnAssembly]) -> None:
        for event in read_events(self.connection, session.id):
            turn, record = turns.get(event.turn_id), event.record
            if isinstance(record, records.UnreadableRecord):
                raise ValueError(f"{event} of session {session.id} cannot be read: {record.reason}")
            if isinstance(record, records.Compaction) and event.kind == "compacted":
                session.marks.append(_compaction_mark(event.at, record, self.clean))
            elif turn is not None:
                turn.add_event(event)
                if isinstance(record, records.SetupRecord) and not session.system_prompt:
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


# -- one turn ---------------------------------------------------------------------------------------------------------


def _compaction_mark(at: float, compaction: records.Compaction, clean: Cleaner) -> Mark:
    """A recorded compaction as a mark: the summary, not the messages that stayed."""
    data = {
        "reason": compaction.reason,
        "tokens_before": compaction.tokens_before,
        "tokens_after": compaction.tokens_after,
        "messages_after": len(compaction.messages),
        "summary": clean.text(summary_in(compaction.messages)),
    }
    return Mark("compacted", at, data)


def _side_call(call: StoredCallRow, clean: Cleaner) -> SideCall:
    """A question beside the conversation."""
    return SideCall(call.key.removeprefix("side:"), _attempt(call, clean), _usage(call))


class _TurnAssembly:
    """Puts the record of one turn together, as far as it has come."""

    def __init__(self, row: TurnFacts, copied: bool, clean: Cleaner) -> None:
        self._clean = clean
        self.turn = TurnRecord(
            row.id,
            row.task_id,
            "",
            row.started_at,
            row.ended_at,
            cast("RunStatus", row.state),  # it was started, so that it does not wait
            answer=clean.text(row.answer or ""),
            error=clean.text(row.error or ""),
            undone=bool(row.undone),
            copied=copied,
        )
        #: Steps by their number, and tool calls by their key.
        self._steps: dict[int, ModelStep] = {}
        self._tools: dict[str, ToolStep] = {}

    def add_call(self, call: StoredCallRow) -> None:
        """Add an attempt at a provider. All of them come before the events."""
        kind, _, rest = call.key.partition(":")
        if kind != "model" or not rest.isdecimal():
            self.turn.side_calls.append(_side_call(call, self._clean))
            return
        number = int(rest)
        step = self._steps.get(number)
        if step is None:
            step = self._steps[number] = ModelStep(number, [])
            insort(self.turn.steps, step, key=lambda known: known.number)
        step.add_attempt(_attempt(call, self._clean))
        if call.status == "ok":
            step.usage, step.finish_reason = _usage(call), call.finish_reason or ""

    def add_event(self, event: ReadEvent) -> None:
        """Add what an event says."""
        turn = self.turn
        match event.record:
            case records.StartRecord(message):
                turn.user_message = self._clean.value(message.get("content") or "")
            case records.ResumptionRecord():
                turn.marks.append(Mark("resumed", event.at))
            case records.UndoingRecord():
                turn.marks.append(Mark("undone", event.at))
            case records.SetupRecord(context=context):
                turn.context = self._clean.text(context)
            case records.ReplyRecord(reply=reply):
                self._add_reply(self._steps.get(records.step_place(event.key).step), reply)
            case records.WaitingCall(args=args):
                self._add_waiting(event, args)
            case records.ClaimRecord() as claim:
                self._claim_tool(event, claim)
            case records.CallRecord() as call:
                self._end_tool(event, call)
            case records.Compaction() as compaction:
                turn.marks.append(_compaction_mark(event.at, compaction, self._clean))
            case _:
                pass

    def _add_reply(self, step: ModelStep | None, reply: records.StoredReply) -> None:
        if step is None:
            return  # a journal that lost the attempt; ``hermes trace verify`` reports it
        clean = self._clean
        step.text, step.reasoning = clean.text(reply.content), clean.text(reply.reasoning)
        step.tool_calls = tuple(
            ToolCallRecord(one.id, one.name, clean.arguments(one.arguments)) for one in reply.tool_calls
        )

    def _tools_of(self, key: str) -> list[ToolStep]:
        """Where a call belongs: to the step that asked for it, or to none when a plugin made it."""
        step = self._steps.get(records.step_place(key).step) if key.startswith("tool:") else None
        return self.turn.other_tools if step is None else step.tools

    def _add_waiting(self, event: ReadEvent, args: dict[str, Any]) -> None:
        """A call that waits for an answer: it has begun, and is the same one when it goes on."""
        place = records.step_place(event.key)
        step = self._steps.get(place.step)
        if event.key in self._tools or step is None or place.call >= len(step.tool_calls):
            return
        asked = step.tool_calls[place.call]
        tool = self._tools[event.key] = ToolStep(asked.id, asked.name, self._clean.value(args), event.at)
        step.tools.append(tool)

    def _claim_tool(self, event: ReadEvent, claim: records.ClaimRecord) -> None:
        waiting = self._tools.get(event.key)
        if waiting is not None and waiting.status == "running":
            waiting.args = self._clean.value(claim.args)
            return
        tool = self._tools[event.key] = ToolStep(claim.id, claim.name, self._clean.value(claim.args), event.at)
        self._tools_of(event.key).append(tool)

    def _end_tool(self, event: ReadEvent, call: records.CallRecord) -> None:
        tool = self._tools.get(event.key)
        if tool is None or tool.status != "running":
            started_at = event.at - call.duration_ms / 1000
            tool = self._tools[event.key] = ToolStep(call.id, call.name, {}, started_at)
        tool.args, tool.result = self._clean.value(call.args), self._clean.text(call.result)
        tool.status, tool.ended_at, tool.error_type = call.status, event.at, call.error_type or ""
        tool.error_message = self._clean.text(call.error_message or "")
        put_ended(self._tools_of(event.key), tool)

    def add_approval(self, row: QuestionRow) -> None:
        """Add a question about a call, and its answer."""
        tool = self._tools.get(row.key)
        if tool is None:
            return  # the call it was about has yet to begin
        tool.started_at = min(tool.started_at, row.created_at)
        asked = (tool.tool_call_id, self._clean.text(row.subject), row.description, row.rules, row.surface)
        tool.approvals.append(ApprovalRecord(*asked, row.created_at, row.answered_at, row.answer or ""))

    def add_message(self, number: int, position: int, message: Any) -> None:
        """Add what else the model was given: before its own step at position 0, else before the one that follows."""
        step = self._steps.get(number + (position > 0))
        if step is not None:
            step.messages.append(self._clean.value(message))


def _attempt(call: StoredCallRow, clean: Cleaner) -> AttemptRecord:
    return AttemptRecord(
        api_request_id=call.api_request_id,
        provider=call.provider,
        model=call.model,
        started_at=call.started_at,
        ended_at=call.ended_at,
        status=call.status,
        error=clean.text(call.error or ""),
        first_token=call.first_token,
    )


def _usage(call: StoredCallRow) -> UsageRecord | None:
    if call.input_tokens is None and call.output_tokens is None:
        return None
    *counts, _ = UsageRecord.__struct_fields__
    return UsageRecord(*(getattr(call, name) or 0 for name in counts), cost_usd=call.cost_usd)
