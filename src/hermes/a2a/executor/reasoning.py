"""The model's reasoning: told apart from its answer, and shown to operators as a span."""

from __future__ import annotations

import os

from hermes.models.wires.chat.thinking import ThinkSplitter
from hermes.version import __version__

_OPEN = "<think>"
_CLOSE = "</think>"
_PREVIEW_CHARS = 512


def split_thinking(content: str, *, may_lack_opening: bool) -> tuple[str, str]:
    """The reasoning and the answer in a text that has both.

    With ``may_lack_opening``, what comes before a lone closing tag is reasoning too: chat templates that open the
    block themselves leave the opening out of what the model is seen to write.
    """
    if may_lack_opening:
        before, closed, _ = content.partition(_CLOSE)
        if closed and _OPEN not in before:
            content = _OPEN + content
    splitter = ThinkSplitter()
    pieces = splitter.feed(content) + splitter.finish()
    thoughts = [piece for kind, piece in pieces if kind == "reasoning"]
    answer = _take_blocks("".join(piece for kind, piece in pieces if kind == "text"), thoughts)
    return "\n".join(thoughts), answer


def _take_blocks(text: str, thoughts: list[str]) -> str:
    """The text without further blocks, which join the thoughts. A tag that nothing closes belongs to the answer."""
    kept: list[str] = []
    before, opened, rest = text.partition(_OPEN)
    while opened and _CLOSE in rest:
        inside, _, text = rest.partition(_CLOSE)
        kept.append(before)
        thoughts.append(inside)
        before, opened, rest = text.partition(_OPEN)
    return "".join([*kept, before, opened, rest])


def record_reasoning(*, model: str, context_id: str, reasoning: str | None, details: object | None) -> None:
    """Leave a span ``hermes.reasoning`` with the global OpenTelemetry tracer. Raises when there is no such package."""
    from opentelemetry import trace

    with trace.get_tracer("hermes.a2a", __version__).start_as_current_span("hermes.reasoning") as span:
        span.set_attribute("workspace.id", os.environ.get("WORKSPACE_ID", "unknown"))
        # In this mode nothing is stored under the task's id; the context is what ties the turns together.
        span.set_attribute("a2a.task_id", context_id)
        span.set_attribute("hermes.model", model)
        span.set_attribute("hermes.reasoning_length", len(reasoning or ""))
        if reasoning:
            span.set_attribute("hermes.reasoning_preview", reasoning[:_PREVIEW_CHARS])
        if details is not None:
            span.set_attribute("hermes.has_reasoning_details", True)
