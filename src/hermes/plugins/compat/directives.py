"""What ``pre_tool_call`` callbacks say about a tool call that a plugin asks about, without running it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from hermes.plugins.compat.host import Names

Directive = tuple[str | None, str | None]


def directive_functions(invoke_hook: Callable[..., list[Any]]) -> Names:
    """The three questions a plugin may ask, answered by the callbacks that ``invoke_hook`` reaches."""

    def get_pre_tool_call_directive(
        tool_name: str,
        args: dict[str, Any] | None,
        task_id: str = "",
        session_id: str = "",
        tool_call_id: str = "",
        turn_id: str = "",
        api_request_id: str = "",
        middleware_trace: list[dict[str, Any]] | None = None,
    ) -> Directive:
        answers = invoke_hook(
            "pre_tool_call",
            tool_name=tool_name,
            args=args if isinstance(args, dict) else {},
            task_id=task_id,
            session_id=session_id,
            tool_call_id=tool_call_id,
            turn_id=turn_id,
            api_request_id=api_request_id,
            middleware_trace=list(middleware_trace or ()),
        )
        return _first(answers)

    def get_pre_tool_call_block_message(tool_name: str, args: dict[str, Any] | None, *ids: Any, **more: Any) -> Any:
        action, message = get_pre_tool_call_directive(tool_name, args, *ids, **more)
        return message if action == "block" else None

    def resolve_pre_tool_block(tool_name: str, args: dict[str, Any] | None, *ids: Any, **more: Any) -> str | None:
        action, message = get_pre_tool_call_directive(tool_name, args, *ids, **more)
        if action != "approve":
            return message
        # Nobody can be asked from here, and not to ask must not mean yes. dispatch_tool asks.
        return f"{tool_name} needs approval ({message or 'a plugin asks for it'}) and nobody can be asked here"

    return {
        "get_pre_tool_call_block_message": get_pre_tool_call_block_message,
        "get_pre_tool_call_directive": get_pre_tool_call_directive,
        "resolve_pre_tool_block": resolve_pre_tool_block,
    }


def _first(answers: list[Any]) -> Directive:
    """The first answer that is a directive: ``block`` with a message, or ``approve``."""
    for answer in answers:
        if not isinstance(answer, dict):
            continue
        fields = cast("dict[str, Any]", answer)
        action, message = fields.get("action"), fields.get("message")
        told = message if isinstance(message, str) and message else None
        if action == "approve" or (action == "block" and told):
            return action, told
    return None, None
