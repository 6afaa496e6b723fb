"""Bodies of requests as typed structs; what is wrong with one is reported with the name of its field."""

from __future__ import annotations

import re
from typing import Any, TypeVar, cast

import msgspec

from hermes.surfaces.openai_api.errors import ApiError, invalid

T = TypeVar("T", bound=msgspec.Struct)

_PLACE = re.compile(r"^(.*) - at `\$\.?(.*)`$", re.DOTALL)


class StreamOptions(msgspec.Struct):
    """Options of a streamed chat completion."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct):
    """``POST /v1/chat/completions``."""

    messages: list[dict[str, Any]]
    model: str = ""
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None
    tool_choice: Any = None
    modalities: list[str] | None = None
    user: str | None = None
    # Accepted and without effect: the settings of the agent count.
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    metadata: dict[str, Any] | None = None


class ResponsesRequest(msgspec.Struct):
    """``POST /v1/responses``."""

    input: str | list[dict[str, Any]]
    model: str = ""
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool | None = None
    store: bool | None = None
    background: bool | None = None
    text: dict[str, Any] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    metadata: dict[str, Any] | None = None
    user: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None


class RunRequest(msgspec.Struct):
    """``POST /v1/runs``."""

    input: str | list[dict[str, Any]]
    model: str = ""
    instructions: str | None = None
    session_id: str | None = None
    previous_response_id: str | None = None


class ApprovalDocument(msgspec.Struct):
    """``POST /v1/runs/{id}/approval``: a choice for an approval, or an answer to a question of the model."""

    choice: str | None = None
    answer: str | None = None
    approval_id: str | None = None
    reason: str = ""


def read_document(body: bytes, kind: type[T]) -> T:
    """The body as a struct of that kind; ``ApiError`` says what is wrong with it."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        what, place = (found[1], found[2]) if found else (str(error), "")
        missing = re.search(r"missing required field `(\w+)`", what)
        param = missing[1] if missing else place or None
        raise invalid(f"{place or 'the body'}: {what[:1].lower()}{what[1:]}", param) from None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise invalid("the body is not JSON") from None


def refuse_tools(tools: list[Any] | None, tool_choice: Any, param: str = "tools") -> None:
    """Refuse tools of the client, which would be ignored otherwise: the tools of the agent run on this machine."""
    if tools and tool_choice != "none":
        raise invalid(
            f"{param}: the agent has its own tools, which run on the server; leave {param} out",
            param,
            "unsupported_value",
        )


def check_model(model: str, known: tuple[str, ...]) -> str:
    """The model's name; ``ApiError`` when there is none of that name."""
    if model and model not in known:
        listed = " and ".join(known)
        raise ApiError(
            404, f"the model {model!r} does not exist; allowed: {listed}", param="model", code="model_not_found"
        )
    return model or known[0]


def format_instructions(wanted: dict[str, Any] | None, param: str) -> str:
    """The words that ask the model for the wanted format of the answer; empty for plain text."""
    if wanted is None or wanted.get("type") in (None, "text"):
        return ""
    if wanted.get("type") == "json_object":
        return "Give your final answer as one JSON object and nothing else: no words around it, no code fence."
    if wanted.get("type") == "json_schema":
        holder: Any = wanted.get("json_schema") or wanted
        schema: object = cast("dict[str, Any]", holder).get("schema") if isinstance(holder, dict) else None
        if not isinstance(schema, dict):
            raise invalid(f"{param}: a json_schema needs a schema", param)
        return (
            "Give your final answer as one JSON document that fits the schema below, and nothing else: no words around "
            f"it, no code fence.\n\nJSON schema:\n{msgspec.json.encode(schema).decode()}"
        )
    raise invalid(f"{param}: found {wanted.get('type')!r}; allowed: text, json_object and json_schema", param)
