"""What the hooks of tool calls, approvals and child agents tell, put into drafts."""

from __future__ import annotations

from typing import Any

from hermes.trace.draft import ToolDraft
from hermes.trace.records import ApprovalRecord, RunStatus
from hermes.trace.watched import Watched

_CHILD_STATUS: dict[str, RunStatus] = {"completed": "completed", "interrupted": "interrupted", "timeout": "interrupted"}


class ToolEvents:
    """A method for each hook, which names the fields it needs."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    # -- tool calls ---------------------------------------------------------------------------------------------

    def pre_tool_call(self, *, session_id: str, turn_id: str, tool_call_id: str, tool_name: str) -> None:
        # The arguments may still change; those that count come with the end.
        with self._watched.lock:
            turn = self._watched.turn_of(session_id, turn_id)
            if turn is not None:
                tool = ToolDraft(tool_call_id, tool_name, {}, self._watched.clock())
                turn.shelf(tool_call_id).running[tool_call_id] = tool

    def post_tool_call(
        self,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        tool_name: str,
        args: dict[str, Any] | None = None,
        result: str = "",
        status: Any = "ok",
        duration_ms: int = 0,
        error_type: str | None = None,
        error_message: str | None = None,
    ) -> None:
        cleaned = self._watched.clean.value(args or {})
        text = self._watched.clean.text(result)
        with self._watched.lock:
            turn = self._watched.turn_of(session_id, turn_id)
            if turn is None:
                return
            now = self._watched.clock()
            shelf = turn.shelf(tool_call_id)
            tool = shelf.running.pop(tool_call_id, None)
            if tool is None:  # of a turn that was cut off and goes on here
                tool = ToolDraft(tool_call_id, tool_name, {}, now - duration_ms / 1000)
            tool.args, tool.result, tool.status, tool.ended_at = cleaned, text, status, now
            tool.error_type, tool.error_message = error_type or "", self._watched.clean.text(error_message or "")
            shelf.ended.append(tool)

    # -- approvals ----------------------------------------------------------------------------------------------

    def pre_approval_request(
        self,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        command: str = "",
        description: str = "",
        pattern_key: str = "",
        pattern_keys: list[str] | None = None,
        surface: str = "",
    ) -> None:
        rules = tuple(dict.fromkeys([pattern_key, *(pattern_keys or ())]))
        asked = ApprovalRecord(
            tool_call_id, self._watched.clean.text(command), description, rules, surface, self._watched.clock()
        )
        with self._watched.lock:
            turn = self._watched.turn_of(session_id, turn_id)
            tool = turn.shelf(tool_call_id).running.get(tool_call_id) if turn is not None else None
            if tool is not None:
                tool.approvals.append(asked)

    def post_approval_response(
        self, *, session_id: str, turn_id: str, tool_call_id: str, pattern_key: str = "", choice: str = ""
    ) -> None:
        with self._watched.lock:
            turn = self._watched.turn_of(session_id, turn_id)
            tool = turn.shelf(tool_call_id).running.get(tool_call_id) if turn is not None else None
            for at, one in enumerate(tool.approvals if tool is not None else ()):
                if not one.choice and one.rules[:1] == (pattern_key,):
                    answered = ApprovalRecord(
                        *(one.tool_call_id, one.command, one.description, one.rules, one.surface, one.asked_at),
                        *(self._watched.clock(), choice),
                    )
                    assert tool is not None
                    tool.approvals[at] = answered

    # -- children -----------------------------------------------------------------------------------------------

    def subagent_start(
        self,
        *,
        parent_session_id: str,
        child_session_id: str,
        parent_turn_id: str = "",
        tool_call_id: str = "",
        child_subagent_id: str = "",
        child_role: str = "",
        child_goal: str = "",
    ) -> None:
        goal = self._watched.clean.text(child_goal)
        with self._watched.lock:
            parent, child = self._watched.session(parent_session_id), self._watched.session(child_session_id)
            if not any(one is child for one in parent.children):
                parent.children.append(child)
            child.parent_id, child.parent_turn_id, child.parent_tool_call_id = parent.id, parent_turn_id, tool_call_id
            child.subagent_id, child.role, child.goal = child_subagent_id, child_role, goal
            child.platform = child.platform or parent.platform

    def subagent_stop(self, *, child_session_id: str, child_status: str = "") -> None:
        with self._watched.lock:
            child = self._watched.sessions.get(child_session_id)
            if child is not None:
                child.status = _CHILD_STATUS.get(child_status, "failed")
                child.ended_at = child.ended_at or self._watched.clock()
