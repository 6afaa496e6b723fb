"""Where a server departs from the request format it speaks, as data."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Quirks(Struct, frozen=True):
    """What a provider wants otherwise. The defaults are those of the format itself."""

    #: Only one system message is taken, at the start: several become one.
    merge_system: bool = False
    #: The field that limits the answer; empty when none is taken.
    max_tokens_field: Literal["max_tokens", "max_completion_tokens", ""] = "max_tokens"
    #: Whether ``stream_options`` is taken, which asks for the usage of a stream.
    stream_options: bool = True
    #: Whether ``temperature`` is taken.
    temperature: bool = True
    #: Whether one answer may call several tools.
    parallel_tools: bool = True
    #: How the wanted effort is said: as ``reasoning_effort``, as ``reasoning: {effort}``, as
    #: ``reasoning: {enabled}``, or not at all.
    reasoning: Literal["effort", "object", "enabled", ""] = "effort"
    #: Whether the reasoning behind tool calls has to come back with them.
    echo_reasoning: bool = False
    #: Tool call ids are letters and digits of exactly this length; 0 takes any id.
    tool_id_length: int = 0
    #: Whether parts of a prompt may be marked as worth caching.
    prompt_caching: bool = True
