"""``Reply``: one normalised model answer, whatever the wire or the middleware it came from."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from hermes.base.errors import FailureReason, Interrupted, ProviderError
from hermes.contract.response import Record, chat_response, to_plain
from hermes.models.costs.usage import Usage, usage_from

#: A whole answer as plain data in the shape of a chat completion: what every wire makes of a response.
Completion = dict[str, Any]
#: The most tool calls of one reply.
MAX_TOOL_CALLS = 256


class ToolRequest(msgspec.Struct, omit_defaults=True):
    """One tool call the model asks for. ``arguments`` is the JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str
    #: The answer reached its output limit with this call, so arguments that cannot be read are half of what they were.
    is_last_of_cut_off: bool = False


class Reply(msgspec.Struct):
    """One model answer: text, reasoning and tool calls, and how it ended."""

    content: str = ""
    reasoning: str = ""
    tool_calls: list[ToolRequest] = []
    finish_reason: str = "stop"
    model: str = ""
    usage: Usage | None = None
    response_id: str = ""
    #: Opaque reasoning state that the provider wants back with the next request; only its own wire reads it.
    provider_state: dict[str, Any] | None = msgspec.field(default=None, name="carry")


class IncompleteReply(ProviderError):
    """The answer broke off or turned into an error; ``partial`` is what had arrived by then."""

    def __init__(
        self,
        message: str,
        *,
        partial: Reply,
        reason: FailureReason = "truncated",
        status_code: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, reason=reason, status_code=status_code, retry_after=retry_after)
        self.partial = partial


def with_partial(error: ProviderError, partial: Reply) -> IncompleteReply:
    """The same error with what had arrived before it."""
    return IncompleteReply(
        str(error),
        partial=partial,
        reason=error.reason,
        status_code=error.status_code,
        retry_after=error.retry_after,
    )


class InterruptedReply(Interrupted):
    """The request was cancelled; ``partial`` is what had arrived by then."""

    def __init__(self, reason: str, partial: Reply) -> None:
        super().__init__(reason)
        self.partial = partial


def normalise(response: object) -> Reply:
    """Any object of the chat shape as a ``Reply``.

    Takes what execution middleware may return: a record, a dictionary, a namespace, an SDK object, or any of
    them after a JSON round trip. Raises ``ProviderError`` with reason ``malformed`` saying what was found.
    """
    fields = to_plain(response)
    if not isinstance(fields, dict):
        raise _malformed(f"expected a chat completion, found {type(response).__name__}")
    return reply_from(cast("Completion", fields))


def reply_from(completion: Completion) -> Reply:
    """The reply in an answer that is plain data. Raises ``ProviderError`` (``malformed``) when there is none."""
    choice = _first_choice(completion)
    message: Any = choice.get("message")
    if not isinstance(message, dict):
        raise _malformed(f"the first choice has no message (its keys: {_keys(choice)})")
    message = cast("dict[str, Any]", message)
    calls = tool_requests(message["tool_calls"]) if message.get("tool_calls") else []
    content, refusal = text_of(message.get("content")), text_of(message.get("refusal"))
    finish_reason = _finish_reason(str(choice.get("finish_reason") or ("tool_calls" if calls else "stop")))
    state: Any = message.get("carry")
    if refusal and not content and not calls and finish_reason == "stop":
        finish_reason = "refusal"
    reply = Reply(
        content=content or refusal,
        reasoning=text_of(message.get("reasoning")) or text_of(message.get("reasoning_content")),
        tool_calls=calls,
        finish_reason=finish_reason,
        model=str(completion.get("model") or ""),
        usage=usage_from(completion.get("usage")),
        response_id=str(completion.get("id") or ""),
        provider_state=cast("dict[str, Any]", state) if isinstance(state, dict) and state else None,
    )
    if finish_reason == "error":  # how gateways report that the server behind them failed
        raise IncompleteReply(_FAILED_BEHIND, partial=reply, reason="server_error")
    refuse_empty(reply)
    return reply


_FAILED_BEHIND = "the answer failed at the provider's own source (finish_reason 'error')"
#: Other words for the finish reasons of the chat format.
_SYNONYMS = {
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "safety": "content_filter",
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
}


def _finish_reason(given: str) -> str:
    """A finish reason in the words of the chat format; one that is not known stays as it is."""
    name = given.partition(":")[0].strip().lower()
    return "content_filter" if name == "content_filter" else _SYNONYMS.get(name, given)


def to_response(reply: Reply) -> Record:
    """A reply as the chat completion object that plugins see."""
    return chat_response(to_completion(reply))


def to_completion(reply: Reply) -> Completion:
    """A reply as plain data in the shape of a chat completion, without provider state."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": reply.content or None,
        "reasoning": reply.reasoning or None,
        "tool_calls": [tool_call_message(call) for call in reply.tool_calls] or None,
    }
    head = {"id": reply.response_id or None, "model": reply.model}
    return chat_completion(head, message, reply.finish_reason, reply.usage.as_response_usage() if reply.usage else None)


def chat_completion(
    head: dict[str, Any], message: dict[str, Any], finish_reason: str, usage: dict[str, Any] | None
) -> Completion:
    """A whole answer with one message. ``head`` has its id and its model."""
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}


def unfinished_reply(
    head: dict[str, Any], message: dict[str, Any], finish_reason: str, usage: dict[str, Any] | None
) -> Reply:
    """What there is of an answer that will not be finished; calls count when they have a name by now."""
    named = [call for call in message["tool_calls"] or () if call["function"]["name"]]
    return Reply(
        content=message["content"] or message.get("refusal") or "",
        reasoning=message["reasoning"] or "",
        tool_calls=tool_requests(named),
        finish_reason=finish_reason,
        model=str(head.get("model") or ""),
        usage=usage_from(usage),
        response_id=str(head.get("id") or ""),
    )


def tool_call_message(call: ToolRequest) -> dict[str, Any]:
    """A tool call as part of an assistant message."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


class EmptyReply(ProviderError):
    """The model said nothing and asked for nothing."""


def refuse_empty(reply: Reply) -> None:
    """Raise when a reply says nothing: a silent empty answer would end the turn without an explanation."""
    if reply.content or reply.tool_calls or reply.reasoning or reply.finish_reason == "length":
        return
    if reply.finish_reason == "content_filter":
        raise ProviderError(
            "the provider's content filter withheld the answer; rephrase the request or use another model",
            reason="content_policy",
        )
    found = f"empty response: no text and no tool calls (finish_reason {reply.finish_reason!r})"
    raise EmptyReply(f"the model's response cannot be read: {found}", reason="malformed")


def check_call_count(count: int) -> None:
    """Raise when one reply calls more tools than any task needs: a model that repeats itself would never stop."""
    if count > MAX_TOOL_CALLS:
        raise _malformed(f"the reply calls more than {MAX_TOOL_CALLS} tools; none of them was run")


def tool_requests(raw: object) -> list[ToolRequest]:
    """Tool calls with ids that are present and unique, whatever the server or a plugin left out."""
    if not raw:
        return []
    if not isinstance(raw, list):
        raise _malformed(f"tool_calls is {type(raw).__name__}, expected a list")
    check_call_count(len(cast("list[Any]", raw)))
    calls: list[ToolRequest] = []
    taken: set[str] = set()
    for position, item in enumerate(cast("list[Any]", raw)):
        function: Any = cast("dict[str, Any]", item).get("function") if isinstance(item, dict) else None
        if not isinstance(function, dict) or not _string(cast("dict[str, Any]", function).get("name")):
            raise _malformed(f"tool call {position} names no function")
        function = cast("dict[str, Any]", function)
        call_id = _free_id(_string(cast("dict[str, Any]", item).get("id")), position, taken)
        calls.append(ToolRequest(call_id, _string(function["name"]), _argument_text(function.get("arguments"))))
    return calls


def text_of(content: object) -> str:
    """Message content as text: a string, or the text parts of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_part_text(part) for part in cast("list[object]", content))
    return ""


def thoughts_of(content: object) -> str:
    """The reasoning among the parts of message content, where a server puts it there."""
    if not isinstance(content, list):
        return ""
    parts = [cast("dict[str, Any]", part) for part in cast("list[object]", content) if isinstance(part, dict)]
    return "".join(text_of(part.get("thinking")) for part in parts if part.get("type") == "thinking")


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict):
        text = cast("dict[str, Any]", part).get("text")
        return text if isinstance(text, str) else ""
    return ""


def _first_choice(body: dict[str, Any]) -> dict[str, Any]:
    choices = body.get("choices")
    if not isinstance(choices, list):
        raise _malformed(f"no choices in the response (its keys: {_keys(body)})")
    if not choices:
        raise _malformed("the response has an empty list of choices")
    first: Any = cast("list[Any]", choices)[0]
    if not isinstance(first, dict):
        raise _malformed(f"the first choice is {type(first).__name__}, expected an object")
    return cast("dict[str, Any]", first)


def _free_id(given: str, position: int, taken: set[str]) -> str:
    """The given id when it is new, else one made from the position: the same reply gives the same ids."""
    call_id = given or f"call_{position}"
    suffix = 1
    while call_id in taken:
        suffix += 1
        call_id = f"{given or f'call_{position}'}_{suffix}"
    taken.add(call_id)
    return call_id


def _argument_text(arguments: object) -> str:
    """Arguments as JSON text; middleware may hand them back already parsed."""
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.encode(arguments).decode()
    except (TypeError, ValueError) as error:
        raise _malformed(f"the arguments of a tool call are not valid data: {error}") from error


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else str(value)


def _keys(fields: dict[str, Any]) -> str:
    return ", ".join(sorted(fields)[:8]) or "none"


def _malformed(found: str) -> ProviderError:
    return ProviderError(f"the model's response cannot be read: {found}", reason="malformed")
