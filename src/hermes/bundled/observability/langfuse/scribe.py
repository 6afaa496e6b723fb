"""Turns the events of the hooks into observations, behind the turn that they tell of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes.sanitize import redact_text
from hermes.trace.records import Usage

from .content import Content, parameters
from .settings import Settings

if TYPE_CHECKING:
    from .tree import Level, Tree, Turn

_MAX_WORDS = 500
#: What was stopped or not allowed is worth a look, and no error.
_NO_ERRORS = ("interrupted", "blocked", "cancelled")
_REFUSALS = ("deny", "timeout", "smart_deny")


class Scribe:
    """A method for each hook, under its name: when it happened, then just the fields that are needed."""

    def __init__(self, settings: Settings, plant: Callable[[], Tree]) -> None:
        self._plant = plant
        self._planted: Tree | None = None
        self._content = Content(settings)

    @property
    def _tree(self) -> Tree:
        if self._planted is None:
            self._planted = self._plant()
        return self._planted

    # -- turns --------------------------------------------------------------------------------------------------

    def pre_llm_call(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        user_message: Any = None,
        model: str = "",
        platform: str = "",
        sender_id: str = "",
    ) -> None:
        """A turn begins."""
        turn = self._tree.begin_turn(at, session_id, turn_id, model=model, platform=platform, user_id=sender_id)
        if turn.root.is_sent:
            turn.root.tell(input=self._content.data(user_message))

    def post_llm_call(self, at: float, /, *, session_id: str, turn_id: str, assistant_response: str = "") -> None:
        """What the turn came to."""
        del at
        turn = self._tree.turn(session_id, turn_id)
        if turn is not None and turn.root.is_sent:
            turn.root.tell(output=self._content.words(assistant_response))

    def on_session_end(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        completed: bool = False,
        interrupted: bool = False,
        reason: str = "",
    ) -> None:
        """A turn ends, one way or another."""
        turn = self._tree.end_turn(session_id, turn_id)
        if turn is None:
            return
        status = "completed" if completed else "interrupted" if interrupted else "failed"
        metadata = {"status": status, "model_calls": turn.model_calls, "tool_calls": turn.tool_calls}
        level = "DEFAULT" if completed else _level(status)
        turn.end(at, level, _words(reason) or status, metadata=metadata)

    def on_session_finalize(self, at: float, /, *, session_id: str) -> None:
        """A session is over: what is still open would never end otherwise."""
        self._content.forget(session_id)
        self._abandon(at, session_id, "the session ended first")

    def end_everything(self, at: float) -> None:
        """The process exits."""
        self._abandon(at, None, "the process ended first")

    def _abandon(self, at: float, session_id: str | None, words: str) -> None:
        if self._planted is not None:
            for turn in self._planted.take_turns(session_id):
                turn.end(at, "ERROR", words, metadata={"status": "abandoned"})

    # -- requests to models -------------------------------------------------------------------------------------

    def pre_api_request(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        api_request_id: str,
        platform: str = "",
        model: str = "",
        provider: str = "",
        base_url: str = "",
        api_mode: str = "",
        api_call_count: int = 0,
        max_tokens: int | None = None,
        started_at: float = 0.0,
        conversation_history: list[Any] | None = None,
        request: dict[str, Any] | None = None,
    ) -> None:
        """A request goes out. A turn that was cut off and goes on has no other beginning."""
        turn = self._turn(at, session_id, turn_id, model=model, platform=platform)
        about = {
            "api_request_id": api_request_id,
            "provider": provider,
            "base_url": base_url,
            "api_mode": api_mode,
            "attempt": api_call_count,
        }
        settings = parameters(request, max_tokens) or None
        began = self._tree.begin_request
        node = began(started_at or at, turn, api_request_id, about, model=model, model_parameters=settings)
        if node.is_sent:
            node.tell(input=self._content.conversation(session_id, conversation_history))

    def post_api_request(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        api_request_id: str,
        ended_at: float = 0.0,
        finish_reason: str = "",
        response_model: str = "",
        usage: dict[str, Any] | None = None,
        cost_usd: float | None = None,
        assistant_message: Any = None,
    ) -> None:
        """The model has answered."""
        turn = self._tree.turn(session_id, turn_id)
        node = turn.requests.pop(api_request_id, None) if turn is not None else None
        if node is None or not node.is_sent:
            return
        node.end(
            ended_at or at,
            output=self._content.answer(assistant_message),
            model=response_model or None,
            usage_details=usage_details(usage),
            cost_details=None if cost_usd is None else {"total": cost_usd},
            metadata={"finish_reason": finish_reason},
        )

    def api_request_error(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        api_request_id: str,
        ended_at: float = 0.0,
        status_code: int | None = None,
        retry_count: int = 0,
        retryable: bool = False,
        reason: str = "",
        error: dict[str, Any] | None = None,
    ) -> None:
        """A request failed; another one may follow, as a generation of its own."""
        turn = self._tree.turn(session_id, turn_id)
        node = turn.requests.pop(api_request_id, None) if turn is not None else None
        if node is None:
            return
        about = {"error_type": reason, "status_code": status_code, "retry_count": retry_count, "retryable": retryable}
        metadata = {name: value for name, value in about.items() if value is not None}
        words = _words(f"{reason}: {(error or {}).get('message', '')}")
        node.end(ended_at or at, _level(reason), words, metadata=metadata)

    # -- tool calls ---------------------------------------------------------------------------------------------

    def pre_tool_call(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        tool_name: str,
        api_request_id: str = "",
    ) -> None:
        """A tool call begins. It includes the gates; how long the tool itself ran is in the metadata."""
        turn = self._turn(at, session_id, turn_id)
        about = {"tool_call_id": tool_call_id, "api_request_id": api_request_id}
        self._tree.begin_tool(at, turn, tool_call_id, tool_name, about)

    def post_tool_call(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        tool_name: str = "",
        args: dict[str, Any] | None = None,
        result: str = "",
        status: str = "ok",
        error_type: str | None = None,
        error_message: str | None = None,
        duration_ms: int = 0,
    ) -> None:
        """A tool call is over. Of one that another process began nobody here saw the start."""
        began_at = at - duration_ms / 1000
        turn = self._turn(began_at, session_id, turn_id)
        if tool_call_id not in turn.tools:
            self._tree.begin_tool(began_at, turn, tool_call_id, tool_name, {"tool_call_id": tool_call_id})
        node = turn.tools.pop(tool_call_id)
        if not node.is_sent:
            return
        metadata: dict[str, Any] = {"status": status, "duration_ms": duration_ms}
        level: Level = "DEFAULT"
        words = ""
        if status != "ok":
            metadata["error_type"] = error_type or status
            level = _level(status)
            words = self._content.words(error_message) or error_type or status
        content = {"input": self._content.data(args or {}), "output": self._content.words(result)}
        node.end(at, level, words[:_MAX_WORDS], metadata=metadata, **content)

    # -- approvals ----------------------------------------------------------------------------------------------

    def pre_approval_request(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        command: str = "",
        description: str = "",
        pattern_key: str = "",
        surface: str = "",
    ) -> None:
        """Somebody is asked about a call."""
        about = {"rule": pattern_key, "description": description, "surface": surface, "tool_call_id": tool_call_id}
        turn = self._turn(at, session_id, turn_id)
        command_text = self._content.words(command)
        self._tree.event(at, turn, tool_call_id, "approval request", "DEFAULT", metadata=about, input=command_text)

    def post_approval_response(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        pattern_key: str = "",
        surface: str = "",
        choice: str = "",
        decided_by: str = "",
    ) -> None:
        """There is an answer, or there was none in time."""
        about = {"rule": pattern_key, "surface": surface, "choice": choice, "tool_call_id": tool_call_id}
        if decided_by:
            about["decided_by"] = decided_by
        level = "WARNING" if choice in _REFUSALS else "DEFAULT"
        turn = self._turn(at, session_id, turn_id)
        self._tree.event(at, turn, tool_call_id, "approval response", level, metadata=about, output=choice)

    # -- children -----------------------------------------------------------------------------------------------

    def subagent_start(
        self,
        at: float,
        /,
        *,
        session_id: str,
        turn_id: str,
        tool_call_id: str,
        child_session_id: str,
        child_subagent_id: str = "",
        child_role: str = "",
    ) -> None:
        """A child is about to work: its turns belong to the call that delegated."""
        about = {"subagent_id": child_subagent_id, "role": child_role, "parent_session_id": session_id}
        turn = self._turn(at, session_id, turn_id)
        self._tree.add_child(child_session_id, turn, tool_call_id, about)

    def subagent_stop(self, at: float, /, *, child_session_id: str, child_status: str = "") -> None:
        """A child has reported, or was given up on; then its turn never ends by itself."""
        self._content.forget(child_session_id)
        self._tree.remove_child(child_session_id)
        self._abandon(at, child_session_id, f"the sub-agent ended first: {child_status}")

    # -- inside -------------------------------------------------------------------------------------------------

    def _turn(self, at: float, session_id: str, turn_id: str, model: str = "", platform: str = "") -> Turn:
        found = self._tree.turn(session_id, turn_id)
        return found or self._tree.begin_turn(at, session_id, turn_id, model=model, platform=platform)


def usage_details(usage: dict[str, Any] | None) -> dict[str, int] | None:
    """Tokens by kind, none of them counted twice: the server adds up the kinds by whether they are input or output."""
    spent = Usage.told(usage)
    if spent is None:
        return None
    reasoning = min(spent.reasoning_tokens, spent.output_tokens)
    details = {
        "input_cached_tokens": spent.cache_read_tokens,
        "input_cache_creation": spent.cache_write_tokens,
        "output_reasoning_tokens": reasoning,
    }
    return {
        "input": spent.input_tokens,
        "output": spent.output_tokens - reasoning,
        "total": spent.total_tokens,
        **{name: count for name, count in details.items() if count},
    }


def _level(status: str) -> Level:
    return "WARNING" if status in _NO_ERRORS else "ERROR"


def _words(text: str) -> str:
    return redact_text(text)[:_MAX_WORDS]
