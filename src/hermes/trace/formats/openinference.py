"""OpenInference: the attributes that Phoenix and its kin read, and a session as an OTLP document with them.

Each function about a span has a twin in ``genai`` that takes the same arguments, so that spans can carry both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from hermes.trace.formats.genai import AGENT_NAME, Attributes, provider_name
from hermes.trace.records import Message, SessionRecord, ToolCallRecord, UsageRecord

_KIND = "openinference.span.kind"
_TEXT, _JSON = "text/plain", "application/json"


def export(session: SessionRecord, *, content: bool = True) -> dict[str, Any]:
    """A session with its descendants as OTLP/JSON in the words of OpenInference."""
    from hermes.trace.formats import openinference, otlp

    return otlp.document(session, openinference, content=content)


# -- who and what -------------------------------------------------------------------------------------------------


def agent(
    *,
    session_id: str,
    turn_id: str,
    model: str = "",
    platform: str = "",
    subagent_id: str = "",
    role: str = "",
    user_id: str = "",
) -> Attributes:
    """A turn as its span begins."""
    about = {"turn_id": turn_id, "platform": platform, "model": model, "subagent_id": subagent_id, "role": role}
    attributes: Attributes = {
        _KIND: "AGENT",
        "agent.name": AGENT_NAME,
        "session.id": session_id,
        "metadata": _json({name: value for name, value in about.items() if value}),
    }
    if user_id:
        attributes["user.id"] = user_id
    return attributes


def inference(
    *,
    session_id: str,
    turn_id: str,
    api_request_id: str,
    provider: str,
    model: str,
    base_url: str = "",
    max_tokens: int | None = None,
    attempt: int = 0,
) -> Attributes:
    """A request to a model as its span begins."""
    del base_url
    attributes: Attributes = {
        _KIND: "LLM",
        "session.id": session_id,
        "llm.model_name": model,
        "llm.request.model_name": model,
        "llm.provider": provider,
        "llm.system": provider_name(provider),
        "metadata": _json({"turn_id": turn_id, "api_request_id": api_request_id, "attempt": attempt}),
    }
    if max_tokens:
        attributes["llm.invocation_parameters"] = _json({"max_tokens": max_tokens})
    return attributes


def tool(
    *, session_id: str, turn_id: str, tool_call_id: str, name: str, api_request_id: str = "", description: str = ""
) -> Attributes:
    """A tool call as its span begins."""
    attributes: Attributes = {
        _KIND: "TOOL",
        "session.id": session_id,
        "tool.name": name,
        "tool.id": tool_call_id,
        "metadata": _json({"turn_id": turn_id, "api_request_id": api_request_id}),
    }
    if description:
        attributes["tool.description"] = description
    return attributes


def answer(*, model: str, finish_reason: str, usage: UsageRecord | None) -> Attributes:
    """What is known of a request when the model has answered."""
    known: Attributes = {}
    if model:
        known["llm.model_name"] = known["llm.response.model_name"] = model
    if finish_reason:
        known["llm.finish_reason"] = finish_reason
    if usage is not None:
        known["llm.token_count.prompt"] = usage.prompt_tokens
        known["llm.token_count.completion"] = usage.output_tokens
        known["llm.token_count.total"] = usage.total_tokens
        known["llm.token_count.prompt_details.cache_read"] = usage.cache_read_tokens
        known["llm.token_count.prompt_details.cache_write"] = usage.cache_write_tokens
        known["llm.token_count.completion_details.reasoning"] = usage.reasoning_tokens
        if usage.cost_usd is not None:
            known["llm.cost.total"] = usage.cost_usd
    return known


def turn_end(*, status: str, model_calls: int, tool_calls: int, usage: UsageRecord) -> Attributes:
    """How a turn went. Its tokens are not repeated: viewers add up those of the requests themselves."""
    del model_calls, tool_calls, usage
    return {"hermes.turn.status": status}


def failure(*, error_type: str, text: str = "", is_error: bool = True) -> Attributes:
    """OpenInference has no attribute for it: the status of the span says so."""
    del error_type, text, is_error
    return {}


# -- content ------------------------------------------------------------------------------------------------------


def turn_content(user_message: Any = None, answer_text: str = "") -> Attributes:
    """What a turn was asked and what it said."""
    content: Attributes = {}
    if isinstance(user_message, str) and user_message:
        content.update(_value("input", user_message))
    elif user_message:
        content.update(_value("input", _json(user_message), _JSON))
    if answer_text:
        content.update(_value("output", answer_text))
    return content


def instructions(system_prompt: str, tools: Sequence[dict[str, Any]] = ()) -> Attributes:
    """What holds for all requests of a conversation. The system prompt is a message there."""
    del system_prompt
    content: Attributes = {}
    for number, one in enumerate(tools):
        content[f"llm.tools.{number}.tool.name"] = str(one.get("function", {}).get("name", ""))
        content[f"llm.tools.{number}.tool.json_schema"] = _json(one)
    return content


def asked(messages: Iterable[Message]) -> Attributes:
    """The messages of a request, one attribute for each of their fields."""
    content: Attributes = {}
    for number, message in enumerate(messages):
        content.update(_message(f"llm.input_messages.{number}.message", message))
    return content


def answered(text: str, reasoning: str, calls: Iterable[ToolCallRecord], finish_reason: str) -> Attributes:
    """The message of an answer."""
    del finish_reason
    prefix = "llm.output_messages.0.message"
    content: Attributes = {f"{prefix}.role": "assistant"}
    if text:
        content[f"{prefix}.content"] = text
        content.update(_value("output", text))
    if reasoning:
        content[f"{prefix}.contents.0.message_content.type"] = "reasoning"
        content[f"{prefix}.contents.0.message_content.text"] = reasoning
    for number, call in enumerate(calls):
        content.update(_call(f"{prefix}.tool_calls.{number}", call.id, call.name, _json(call.arguments)))
    return content


def called(args: dict[str, Any], result: str) -> Attributes:
    """What a tool was given and what it returned."""
    return {**_value("input", _json(args), _JSON), **_value("output", result, _mime_type(result))}


# -- inside -------------------------------------------------------------------------------------------------------


def _message(prefix: str, message: Message) -> Attributes:
    content = message.get("content")
    flat: Attributes = {f"{prefix}.role": str(message.get("role", ""))}
    if isinstance(content, str):
        flat[f"{prefix}.content"] = content
    elif isinstance(content, list):
        for number, part in enumerate(cast("list[Any]", content)):
            flat.update(_part(f"{prefix}.contents.{number}.message_content", part))
    if message.get("tool_call_id"):
        flat[f"{prefix}.tool_call_id"] = str(message["tool_call_id"])
    for number, call in enumerate(message.get("tool_calls") or ()):
        function: dict[str, Any] = call.get("function") or {}
        name, arguments = str(function.get("name", "")), str(function.get("arguments", ""))
        flat.update(_call(f"{prefix}.tool_calls.{number}", str(call.get("id", "")), name, arguments))
    return flat


def _part(prefix: str, part: Any) -> Attributes:
    fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {"text": str(part)}
    if isinstance(image := fields.get("image_url"), dict):
        url = str(cast("dict[str, Any]", image).get("url", ""))
        return {f"{prefix}.type": "image", f"{prefix}.image.image.url": url}
    return {f"{prefix}.type": "text", f"{prefix}.text": str(fields.get("text", ""))}


def _call(prefix: str, call_id: str, name: str, arguments: str) -> Attributes:
    return {
        f"{prefix}.tool_call.id": call_id,
        f"{prefix}.tool_call.function.name": name,
        f"{prefix}.tool_call.function.arguments": arguments,
    }


def _value(side: str, text: str, mime_type: str = _TEXT) -> Attributes:
    return {f"{side}.value": text, f"{side}.mime_type": mime_type}


def _mime_type(text: str) -> str:
    return _JSON if text[:1] in ("{", "[") else _TEXT


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
