"""OpenInference: the attributes that Phoenix and its kin read, and a session as an OTLP document with them.

Each function about a span has a twin in ``genai`` that takes the same arguments, so that spans can carry both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from hermes.trace.formats.genai import (
    AGENT_NAME,
    AgentSubject,
    Attributes,
    InferenceSubject,
    ToolSubject,
    filled,
    json_text,
    provider_name,
)
from hermes.trace.records import Message, SessionRecord, ToolCallRecord, UsageRecord

_KIND = "openinference.span.kind"
_TEXT, _JSON = "text/plain", "application/json"


def export(session: SessionRecord, *, content: bool = True) -> dict[str, Any]:
    """A session with its descendants as OTLP/JSON in the words of OpenInference."""
    from hermes.trace.formats import openinference, otlp

    return otlp.document(session, openinference, content=content)


# -- who and what -------------------------------------------------------------------------------------------------


def agent(turn: AgentSubject) -> Attributes:
    """A turn as its span begins."""
    about = {name: getattr(turn, name) for name in ("turn_id", "platform", "model", "subagent_id", "role")}
    attributes: Attributes = {
        _KIND: "AGENT",
        "agent.name": AGENT_NAME,
        "session.id": turn.session_id,
        "metadata": json_text(filled(about)),
    }
    return attributes | filled({"user.id": turn.user_id})


def inference(request: InferenceSubject) -> Attributes:
    """A request to a model as its span begins."""
    about = {name: getattr(request, name) for name in ("turn_id", "api_request_id", "attempt")}
    attributes: Attributes = {
        _KIND: "LLM",
        "session.id": request.session_id,
        "llm.model_name": request.model,
        "llm.request.model_name": request.model,
        "llm.provider": request.provider,
        "llm.system": provider_name(request.provider),
        "metadata": json_text(about),
    }
    if request.max_tokens:
        attributes["llm.invocation_parameters"] = json_text({"max_tokens": request.max_tokens})
    return attributes


def tool(call: ToolSubject) -> Attributes:
    """A tool call as its span begins."""
    attributes: Attributes = {
        _KIND: "TOOL",
        "session.id": call.session_id,
        "tool.name": call.name,
        "tool.id": call.tool_call_id,
        "metadata": json_text({"turn_id": call.turn_id, "api_request_id": call.api_request_id}),
    }
    return attributes | filled({"tool.description": call.description})


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


def failure(error_type: str) -> Attributes:
    """OpenInference has no attribute for it: the status of the span says so."""
    del error_type
    return {}


# -- content ------------------------------------------------------------------------------------------------------


def turn_content(user_message: Any = None, answer_text: str = "") -> Attributes:
    """What a turn was asked and what it said."""
    content: Attributes = {}
    if isinstance(user_message, str) and user_message:
        content.update(_value("input", user_message))
    elif user_message:
        content.update(_value("input", json_text(user_message), _JSON))
    if answer_text:
        content.update(_value("output", answer_text))
    return content


def instructions(system_prompt: str, tools: Sequence[dict[str, Any]] = ()) -> Attributes:
    """What holds for all requests of a conversation. The system prompt is a message there."""
    del system_prompt
    content: Attributes = {}
    for number, one in enumerate(tools):
        content[f"llm.tools.{number}.tool.name"] = str(one.get("function", {}).get("name", ""))
        content[f"llm.tools.{number}.tool.json_schema"] = json_text(one)
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
        content.update(_call(f"{prefix}.tool_calls.{number}", call.id, call.name, json_text(call.arguments)))
    return content


def called(args: dict[str, Any], result: str) -> Attributes:
    """What a tool was given and what it returned."""
    kind = _JSON if result[:1] in ("{", "[") else _TEXT
    return {**_value("input", json_text(args), _JSON), **_value("output", result, kind)}


# -- inside -------------------------------------------------------------------------------------------------------


def _message(prefix: str, message: Message) -> Attributes:
    content = message.get("content")
    flat: Attributes = {f"{prefix}.role": str(message.get("role", ""))}
    if isinstance(content, str):
        flat[f"{prefix}.content"] = content
    elif isinstance(content, list):
        for number, part in enumerate(cast("list[Any]", content)):
            flat.update(_part_attributes(f"{prefix}.contents.{number}.message_content", part))
    if message.get("tool_call_id"):
        flat[f"{prefix}.tool_call_id"] = str(message["tool_call_id"])
    for number, call in enumerate(message.get("tool_calls") or ()):
        function: dict[str, Any] = call.get("function") or {}
        name, arguments = str(function.get("name", "")), str(function.get("arguments", ""))
        flat.update(_call(f"{prefix}.tool_calls.{number}", str(call.get("id", "")), name, arguments))
    return flat


def _part_attributes(prefix: str, part: Any) -> Attributes:
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
