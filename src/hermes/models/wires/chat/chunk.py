"""One event of a streamed chat completion, reduced to the fields that are read."""

from __future__ import annotations

from typing import Any, cast

import msgspec


class ChunkDelta(msgspec.Struct):
    """The new part of an answer. Values are taken as they come: servers differ in what they send for "nothing"."""

    content: Any = None
    reasoning: Any = None
    reasoning_content: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: Any = None


class ChunkChoice(msgspec.Struct):
    """The answer a delta belongs to."""

    delta: ChunkDelta | None = None
    message: ChunkDelta | None = None
    finish_reason: Any = None
    index: Any = 0
    usage: Any = None


class Chunk(msgspec.Struct):
    """One event."""

    choices: list[ChunkChoice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None


def misplaced_usage(chunk: Chunk, choice: ChunkChoice) -> dict[str, Any] | None:
    """Usage from the two places where some servers put it instead of the top."""
    usage: Any = choice.usage
    if not usage and isinstance(chunk.x_groq, dict):
        usage = cast("dict[str, Any]", chunk.x_groq).get("usage")
    return cast("dict[str, Any]", usage) if isinstance(usage, dict) else None
