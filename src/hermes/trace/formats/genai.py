"""The OpenTelemetry conventions for generative AI: the attributes of agent, inference and tool spans.

The conventions are still in development. The names here are those of ``SCHEMA_URL``; what they have no name for begins
with ``hermes.``. Callers redact the content first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec

from hermes.trace.records import Message, ToolCallRecord, UsageRecord

SCHEMA_URL = "https://opentelemetry.io/schemas/1.44.0"
AGENT_NAME = "hermes"

Attributes = dict[str, str | int | float | bool | list[str]]


class AgentSubject(NamedTuple):
    """What the span of a turn is about."""

    session_id: str
    turn_id: str
    model: str = ""
    platform: str = ""
    subagent_id: str = ""
    role: str = ""
    user_id: str = ""


class InferenceSubject(NamedTuple):
    """What the span of a request to a model is about."""

    session_id: str
    turn_id: str
    api_request_id: str
    provider: str
    model: str
    base_url: str = ""
    max_tokens: int | None = None
    attempt: int = 0


class ToolSubject(NamedTuple):
    """What the span of a tool call is about."""

    session_id: str
    turn_id: str
    tool_call_id: str
    name: str
    api_request_id: str = ""
    description: str = ""


#: Providers that the conventions know under another name.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
_PORTS = {"http": 80, "https": 443}

#: The name of the span of a turn. Names of spans must be few, so that it says nothing of the turn itself.
AGENT_SPAN = f"invoke_agent {AGENT_NAME}"


def inference_span(model: str) -> str:
    """The name of the span of one request to a model."""
    return f"chat {model}" if model else "chat"


def tool_span(name: str) -> str:
    """The name of the span of a tool call."""
    return f"execute_tool {name}"


# -- who and what -------------------------------------------------------------------------------------------------


def agent(turn: AgentSubject) -> Attributes:
    """A turn as its span begins."""
    return filled(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT_NAME,
            "gen_ai.agent.id": turn.subagent_id,
            "gen_ai.conversation.id": turn.session_id,
            "gen_ai.request.model": turn.model,
            "user.id": turn.user_id,
            "hermes.turn.id": turn.turn_id,
            "hermes.platform": turn.platform,
            "hermes.agent.role": turn.role,
        }
    )


def inference(request: InferenceSubject) -> Attributes:
    """A request to a model as its span begins."""
    return filled(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_name(request.provider),
            "gen_ai.request.model": request.model,
            "gen_ai.conversation.id": request.session_id,
            "gen_ai.request.max_tokens": request.max_tokens or 0,
            **server(request.base_url),
            "hermes.turn.id": request.turn_id,
            "hermes.api_request_id": request.api_request_id,
            "hermes.attempt": request.attempt,
        }
    )


def tool(call: ToolSubject) -> Attributes:
    """A tool call as its span begins."""
    return filled(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.tool_call_id,
            "gen_ai.tool.description": call.description,
            "gen_ai.conversation.id": call.session_id,
            "hermes.turn.id": call.turn_id,
            "hermes.api_request_id": call.api_request_id,
        }
    )


def answer(*, model: str, finish_reason: str, usage: UsageRecord | None) -> Attributes:
    """What is known of a request when the model has answered. ``input_tokens`` counts what came from the cache too."""
    known: Attributes = {"gen_ai.response.model": model}
    if finish_reason:
        known["gen_ai.response.finish_reasons"] = [finish_reason]
    if usage is not None:
        known["gen_ai.usage.input_tokens"] = usage.prompt_tokens
        known["gen_ai.usage.output_tokens"] = usage.output_tokens
        known["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read_tokens
        known["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
        known["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
        if usage.cost_usd is not None:
            known["hermes.cost_usd"] = usage.cost_usd
    return {name: value for name, value in known.items() if value != "" and value != 0}


def turn_end(*, status: str, model_calls: int, tool_calls: int, usage: UsageRecord) -> Attributes:
    """How a turn went. The sums have names of their own, so that no viewer adds them to the spans they are made of."""
    totals: Attributes = {
        "hermes.turn.status": status,
        "hermes.turn.model_calls": model_calls,
        "hermes.turn.tool_calls": tool_calls,
        "hermes.turn.input_tokens": usage.prompt_tokens,
        "hermes.turn.output_tokens": usage.output_tokens,
    }
    if usage.cost_usd is not None:
        totals["hermes.turn.cost_usd"] = usage.cost_usd
    return totals


def failure(error_type: str) -> Attributes:
    """The class of failure of a span that did not end well. Its status says the rest."""
    return {"error.type": error_type or "_OTHER"}


# -- content ------------------------------------------------------------------------------------------------------


def turn_content(user_message: Any = None, answer_text: str = "") -> Attributes:
    """What a turn was asked and what it said."""
    content: Attributes = {}
    if user_message:
        content["gen_ai.input.messages"] = json_text([_message({"role": "user", "content": user_message})])
    if answer_text:
        said = {"role": "assistant", "parts": [_text_part(answer_text)], "finish_reason": "stop"}
        content["gen_ai.output.messages"] = json_text([said])
    return content


def instructions(system_prompt: str, tools: Sequence[dict[str, Any]] = ()) -> Attributes:
    """What holds for all requests of a conversation: the system prompt and the tools on offer."""
    content: Attributes = {}
    if system_prompt:
        content["gen_ai.system_instructions"] = json_text([_text_part(system_prompt)])
    if tools:
        content["gen_ai.tool.definitions"] = json_text(
            [{"type": "function", **tool.get("function", {})} for tool in tools]
        )
    return content


def asked(messages: Iterable[Message]) -> Attributes:
    """The messages of a request, system messages apart from the others."""
    listed = list(messages)
    system = "\n\n".join(_plain_text(one.get("content")) for one in listed if one.get("role") == "system")
    others = [_message(one) for one in listed if one.get("role") != "system"]
    content = instructions(system)
    if others:
        content["gen_ai.input.messages"] = json_text(others)
    return content


def answered(text: str, reasoning: str, calls: Iterable[ToolCallRecord], finish_reason: str) -> Attributes:
    """The message of an answer."""
    parts = [{"type": "reasoning", "content": reasoning}] if reasoning else []
    parts += [_text_part(text)] if text else []
    parts += [{"type": "tool_call", "id": one.id, "name": one.name, "arguments": one.arguments} for one in calls]
    message = {"role": "assistant", "parts": parts, "finish_reason": finish_reason}
    return {"gen_ai.output.messages": json_text([message])}


def called(args: dict[str, Any], result: str) -> Attributes:
    """What a tool was given and what it returned."""
    return {"gen_ai.tool.call.arguments": json_text(args), "gen_ai.tool.call.result": result}


# -- inside -------------------------------------------------------------------------------------------------------


def provider_name(provider: str) -> str:
    """A provider as the conventions call it."""
    return _PROVIDERS.get(provider, provider)


def server(base_url: str) -> Attributes:
    """The host and port of an endpoint."""
    try:
        parts = urlsplit(base_url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return {}
    return {"server.address": parts.hostname, "server.port": port} if parts.hostname else {}


def _message(message: Message) -> dict[str, Any]:
    """A chat message in the conventions' form: a role and parts."""
    role, content = message.get("role", "user"), message.get("content")
    if role == "tool":
        response = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": _plain_text(content)}
        return {"role": "tool", "parts": [response]}
    parts = [_content_part(part) for part in cast("list[Any]", content)] if isinstance(content, list) else []
    if isinstance(content, str) and content:
        parts = [_text_part(content)]
    for call in message.get("tool_calls") or ():
        function: dict[str, Any] = call.get("function") or {}
        arguments = function.get("arguments")
        parts.append(
            {"type": "tool_call", "id": call.get("id"), "name": function.get("name"), "arguments": _data(arguments)}
        )
    return {"role": role, "parts": parts}


def _content_part(part: Any) -> dict[str, Any]:
    """A part of a message's content; what is neither text nor an image is kept as it is."""
    if not isinstance(part, dict):
        return _text_part(str(part))
    fields = cast("dict[str, Any]", part)
    if isinstance(text := fields.get("text"), str):
        return _text_part(text)
    if isinstance(image := fields.get("image_url"), dict):
        return {"type": "uri", "modality": "image", "uri": cast("dict[str, Any]", image).get("url", "")}
    return fields


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _plain_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in cast("list[dict[str, Any]]", content))
    return content if isinstance(content, str) else ""


def _data(arguments: Any) -> Any:
    """Arguments as the object they are meant to be."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments


def json_text(value: Any) -> str:
    """A value as JSON, the way attributes carry what is no scalar."""
    return msgspec.json.encode(value).decode()


def filled(values: dict[str, Any]) -> Attributes:
    """The attributes that are known: no empty strings and zeros."""
    return {name: value for name, value in values.items() if value}
