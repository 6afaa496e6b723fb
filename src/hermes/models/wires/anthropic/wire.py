"""The Anthropic messages wire, and the limits of Claude models by their names."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from hermes.models.endpoint import Endpoint
from hermes.models.wires.anthropic.content import mark_for_cache, may_think, system_and_messages, tool_definition
from hermes.models.wires.anthropic.stream import MessageAssembly
from hermes.models.wires.body_parser import BodyParser
from hermes.models.wires.wire import ModelRequest, PostingWire

#: ``claude-sonnet-4-5-20250929`` and, as it was before, ``claude-3-7-sonnet-20250219``.
_NEW_NAME = re.compile(r"claude-[a-z]+-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")
_OLD_NAME = re.compile(r"claude-(\d)(?:[-.](\d))?(?!\d)")

#: The default limit of an answer: room for a long file, within the limit of every model since Claude 4.
_DEFAULT_TOKENS = 32_000
#: The same for models of other makers, whose limits are unknown.
_CAUTIOUS_TOKENS = 16_000

#: The reasoning budget in tokens, for models that take a budget.
BUDGETS = {"minimal": 1_024, "low": 4_000, "medium": 10_000, "high": 16_000, "xhigh": 24_000, "max": 24_000}
#: The reasoning effort, for models that take a word.
EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
#: The server refuses a smaller budget.
LEAST_BUDGET = 1_024


class Abilities(msgspec.Struct, frozen=True):
    """What one model takes."""

    #: The most it can answer, or a sane guess.
    max_tokens: int = _CAUTIOUS_TOKENS
    #: Adaptive reasoning: takes an effort instead of a token budget.
    adaptive: bool = False
    #: Takes a temperature, as long as it does not think.
    temperature: bool = True
    #: Can be held to a JSON schema.
    json_schema: bool = False


def abilities(endpoint: Endpoint) -> Abilities:
    """What the model of an endpoint takes."""
    known = _abilities(endpoint.model)
    if endpoint.context_length is None or known.max_tokens <= endpoint.context_length // 2:
        return known
    return Abilities(endpoint.context_length // 2, known.adaptive, known.temperature, known.json_schema)


@lru_cache
def _abilities(model: str) -> Abilities:
    name = model.lower()
    if "claude" not in name:
        return Abilities()
    version = _version(name)
    if version < (3, 5):
        return Abilities(4_096)
    if version < (3, 7):
        return Abilities(8_192)
    return Abilities(
        _DEFAULT_TOKENS,
        adaptive=version >= (4, 6),
        temperature=version < (4, 7),
        json_schema=version >= (4, 5),
    )


def _version(name: str) -> tuple[int, int]:
    """The version in a name; a name without one is taken for a new model."""
    found = _NEW_NAME.search(name) or _OLD_NAME.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else (99, 0)


#: The version every server of this format knows; the next one refuses settings that older models take.
API_VERSION = "2023-06-01"

_JSON_ONLY = "Answer with a JSON object and nothing else: no words around it, no code fence."
_BY_SCHEMA = "\nIt must fit this JSON schema:\n"


class AnthropicMessages(PostingWire):
    """Builds requests for ``/v1/messages`` and hands out parsers for the answers. It keeps no state."""

    operation = "/messages"

    def kwargs(self, endpoint: Endpoint, request: ModelRequest) -> dict[str, Any]:
        """The request as the official SDK's keyword arguments."""
        able = abilities(endpoint)
        system, turns = system_and_messages(endpoint, request.messages)
        definitions = [tool_definition(tool) for tool in request.tools or ()]
        limit = request.max_tokens or able.max_tokens
        kwargs: dict[str, Any] = {"model": endpoint.model, "max_tokens": limit, "messages": turns}
        if request.response_format is not None:
            _ask_for_json(able, request.response_format, system, kwargs)
        if endpoint.quirks.prompt_caching:
            mark_for_cache(system, definitions, turns)
        if system:
            kwargs["system"] = system
        if definitions:
            kwargs["tools"] = definitions
            if not endpoint.quirks.parallel_tools:
                kwargs["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        if request.reasoning_effort and endpoint.quirks.reasoning:
            _ask_for_thoughts(able, request.reasoning_effort, kwargs)
        takes_temperature = all((able.temperature, endpoint.quirks.temperature, "thinking" not in kwargs))
        if request.temperature is not None and takes_temperature:
            kwargs["temperature"] = request.temperature
        if request.stream:
            kwargs["stream"] = True
        if endpoint.extra_body:
            kwargs["extra_body"] = dict(endpoint.extra_body)
        return kwargs

    def target(self, endpoint: Endpoint) -> tuple[str, dict[str, str]]:
        """Where requests go, and the headers of the format."""
        versioned = urlsplit(endpoint.base_url).path.rstrip("/").endswith("/v1")
        key = {"x-api-key": endpoint.api_key} if endpoint.api_key else {}
        url = endpoint.url(self.operation if versioned else f"/v1{self.operation}")
        return url, {"anthropic-version": API_VERSION, **key}

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> BodyParser:
        """A parser for one answer, which may come as a stream or as one document whatever was asked for."""
        return BodyParser(endpoint, MessageAssembly(endpoint), streaming=streaming)


def _ask_for_thoughts(able: Abilities, effort: str, kwargs: dict[str, Any]) -> None:
    if able.adaptive:
        if effort in EFFORTS:
            # The thoughts of newer models are withheld unless a summary of them is asked for.
            kwargs["thinking"] = {"type": "adaptive", "display": "summarized"}
            kwargs["output_config"] = {**kwargs.get("output_config", {}), "effort": EFFORTS[effort]}
        return
    budget = min(BUDGETS.get(effort, 0), kwargs["max_tokens"] * 3 // 4)
    if budget >= LEAST_BUDGET and may_think(kwargs["messages"]):
        kwargs["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _ask_for_json(
    able: Abilities, wanted: dict[str, Any], system: list[dict[str, Any]], kwargs: dict[str, Any]
) -> None:
    """Hold the answer to a schema where the model can be held to one; else ask for it in the prompt."""
    if wanted.get("type") not in ("json_object", "json_schema"):
        return
    given: Any = wanted.get("json_schema")
    schema: Any = cast("dict[str, Any]", given).get("schema") if isinstance(given, dict) else None
    if isinstance(schema, dict) and able.json_schema:
        kwargs["output_config"] = {"format": {"type": "json_schema", "schema": _closed(cast("object", schema))}}
        return
    words = _JSON_ONLY
    if schema:
        words += _BY_SCHEMA + msgspec.json.encode(schema).decode()
    system.append({"type": "text", "text": words})


def _closed(schema: Any) -> Any:
    """The schema with every object closed to properties it does not name, as the server demands."""
    if isinstance(schema, list):
        return [_closed(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = {name: _closed(value) for name, value in cast("dict[str, Any]", schema).items()}
    return {**fields, "additionalProperties": False} if fields.get("type") == "object" else fields
