"""Makes the record of one turn from its rows in the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hermes.trace.clean import Cleaner
from hermes.trace.conversation import summary_in
from hermes.trace.draft import StepDraft, ToolDraft, ToolDrafts, TurnDraft
from hermes.trace.records import (
    ApprovalRecord,
    AttemptRecord,
    Mark,
    SideCall,
    ToolCallRecord,
    TurnRecord,
    UsageRecord,
)

Row = dict[str, Any]

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


@dataclass(slots=True)
class TurnRows:
    """Everything the journal has of one turn, each in order."""

    row: Row
    events: list[Row] = field(default_factory=list[Row])
    calls: list[Row] = field(default_factory=list[Row])
    approvals: list[Row] = field(default_factory=list[Row])
    said: list[Row] = field(default_factory=list[Row])
    copied: bool = False


def turn_record(rows: TurnRows, clean: Cleaner) -> TurnRecord:
    """The record of a turn, as far as it has come."""
    return _Assembly(rows, clean).run()


def compaction_mark(event: Row, clean: Cleaner) -> Mark:
    """A recorded compaction as a mark: the summary, not the messages that stayed."""
    body: dict[str, Any] = event["body"]
    data = {name: body[name] for name in ("reason", "tokens_before", "tokens_after")}
    data["messages_after"] = len(body["messages"])
    return Mark("compacted", event["at"], {**data, "summary": clean.text(summary_in(body["messages"]))})


def side_call(call: Row, clean: Cleaner) -> SideCall:
    """A question beside the conversation."""
    purpose: str = call["key"]
    return SideCall(purpose.removeprefix("side:"), _attempt(call, clean), _usage(call))


class _Assembly:
    """Puts one turn together."""

    def __init__(self, rows: TurnRows, clean: Cleaner) -> None:
        self._rows = rows
        self._clean = clean
        row = rows.row
        self._turn = TurnDraft(row["id"], row["task_id"], "", row["started_at"], row["ended_at"])
        self._turn.status, self._turn.undone, self._turn.copied = row["state"], bool(row["undone"]), rows.copied
        self._turn.answer = clean.text(row["answer"] or "")
        self._turn.error = clean.text(row["error"] or "")
        #: Steps by their number, and tool calls by their key.
        self._steps: dict[int, StepDraft] = {}
        self._tools: dict[str, ToolDraft] = {}

    def run(self) -> TurnRecord:
        self._add_calls()
        self._turn.steps = [self._steps[number] for number in sorted(self._steps)]
        self._add_events()
        self._add_approvals()
        self._add_messages()
        return self._turn.freeze()

    # -- model calls --------------------------------------------------------------------------------------------

    def _add_calls(self) -> None:
        for call in self._rows.calls:
            kind, _, rest = call["key"].partition(":")
            if kind == "model" and rest.isdecimal():
                step = self._steps.setdefault(int(rest), StepDraft(int(rest)))
                attempt = _attempt(call, self._clean)
                step.add_attempt(
                    *(attempt.api_request_id, attempt.provider, attempt.model, attempt.started_at, attempt.ended_at),
                    *(attempt.status, attempt.error, attempt.first_token),
                )
                if call["status"] == "ok":
                    step.usage, step.finish_reason = _usage(call), call["finish_reason"] or ""
                    step.model = call["model"]
            else:
                self._turn.side_calls.append(side_call(call, self._clean))

    # -- events -------------------------------------------------------------------------------------------------

    def _add_events(self) -> None:
        turn = self._turn
        for event in self._rows.events:
            kind, key, body = event["kind"], event["key"], event["body"]
            what, _, place = key.partition(":")
            if kind == "turn_started":
                turn.user_message = self._clean.value(body["message"].get("content") or "")
            elif kind in ("turn_resumed", "turn_undone"):
                turn.marks.append(Mark(kind.removeprefix("turn_"), event["at"]))
            elif what == "tool":
                step = self._steps.get(int(place.partition(".")[0]))
                self._add_tool(event, turn.other_tools if step is None else step.tools)
            elif what == "dispatch":
                self._add_tool(event, turn.other_tools)
            elif kind == "step_done" and what == "setup":
                turn.context = self._clean.text(body.get("context", ""))
            elif kind == "step_done" and what == "model":
                self._add_reply(self._steps.get(int(place)), body["reply"])
            elif kind == "step_done" and what == "compact":
                turn.marks.append(compaction_mark(event, self._clean))

    def _add_reply(self, step: StepDraft | None, reply: dict[str, Any]) -> None:
        if step is None:
            return  # a journal that lost the attempt; ``hermes trace verify`` reports it
        clean = self._clean
        step.text, step.reasoning = clean.text(reply["content"]), clean.text(reply.get("reasoning", ""))
        calls = reply["tool_calls"]
        step.tool_calls = tuple(
            ToolCallRecord(one["id"], one["name"], clean.arguments(one["arguments"])) for one in calls
        )

    def _add_tool(self, event: Row, tools: ToolDrafts) -> None:
        key, body, at = event["key"], event["body"], event["at"]
        if event["kind"].endswith("_claimed"):
            args = self._clean.value(body["args"])
            tool = self._tools[key] = tools.running[key] = ToolDraft(body["id"], body["name"], args, at)
            return
        tool = tools.running.pop(key, None)
        if tool is None:
            tool = self._tools[key] = ToolDraft(body["id"], body["name"], {}, at - body["duration_ms"] / 1000)
        tool.args, tool.result = self._clean.value(body["args"]), self._clean.text(body["result"])
        tool.status, tool.ended_at, tool.error_type = body["status"], at, body["error_type"] or ""
        tool.error_message = self._clean.text(body["error_message"] or "")
        tools.ended.append(tool)

    # -- the rest -----------------------------------------------------------------------------------------------

    def _add_approvals(self) -> None:
        for row in self._rows.approvals:
            tool = self._tools.get(row["key"])
            if tool is None:
                continue  # the call it was about has yet to begin
            tool.started_at = min(tool.started_at, row["created_at"])
            command, rules = self._clean.text(row["subject"]), tuple(row["rules"])
            times = (row["created_at"], row["answered_at"])
            tool.approvals.append(
                ApprovalRecord(
                    tool.tool_call_id, command, row["description"], rules, row["surface"], *times, row["choice"] or ""
                )
            )

    def _add_messages(self) -> None:
        """What else the model was given: before its own step at position 0, else before the one that follows."""
        for said in self._rows.said:
            step = self._steps.get(said["step"] + (said["position"] > 0))
            if step is not None:
                step.messages.append(self._clean.value(said["message"]))


def _attempt(call: Row, clean: Cleaner) -> AttemptRecord:
    ended_at = call["started_at"] + call["duration"]
    return AttemptRecord(
        *(call["api_request_id"], call["provider"], call["model"], call["started_at"], ended_at, call["status"]),
        error=clean.text(call["error"] or ""),
        first_token=call["first_token"],
    )


def _usage(call: Row) -> UsageRecord | None:
    if call["input_tokens"] is None and call["output_tokens"] is None:
        return None
    return UsageRecord(*(call[name] or 0 for name in _TOKENS), cost_usd=call["cost_usd"])
