"""The smaller parts of an ATIF step: messages, calls, metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from hermes.trace.records import ModelStep, ToolCallRecord, ToolStep, UsageRecord

Document = dict[str, Any]

_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_ENDINGS = {"jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "gif": "image/gif", "webp": "image/webp"}


def no_nulls(fields: Document) -> Document:
    """The fields that have a value; the schema reads an absent one as null."""
    return {name: value for name, value in fields.items() if value is not None}


def content(message: str | list[Any]) -> str | list[Document]:
    """What was said, as text or as parts; a part of another kind becomes a note of it."""
    return message if isinstance(message, str) else [_content_part(part) for part in message]


def _content_part(part: Any) -> Document:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    fields = cast("Document", part) if isinstance(part, dict) else {}
    if isinstance(fields.get("text"), str):
        return {"type": "text", "text": fields["text"]}
    image: Any = fields.get("image_url")
    address: Any = cast("Document", image).get("url") if isinstance(image, dict) else image
    kind = _image_type(address) if isinstance(address, str) else ""
    if kind:
        return {"type": "image", "source": {"media_type": kind, "path": address}}
    return {"type": "text", "text": f"[{fields.get('type') or 'content'}]"}


def _image_type(address: str) -> str:
    if address.startswith("data:"):
        kind = address[5:].partition(";")[0]
        return kind if kind in _IMAGE_TYPES else ""
    return _ENDINGS.get(address.partition("?")[0].rpartition(".")[2].lower(), "")


def tool_call(call: ToolCallRecord, ran: ToolStep | None) -> Document:
    """A call as the model asked for it, and what the tool ran with when that was something else."""
    made: Document = {"tool_call_id": call.id, "function_name": call.name, "arguments": call.arguments}
    if ran is not None and ran.args != call.arguments:
        made["extra"] = {"ran_with": ran.args}
    return made


def metrics(usage: UsageRecord) -> Document:
    """What an answer took."""
    extra = {"reasoning_tokens": usage.reasoning_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return no_nulls(
        {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.output_tokens,
            "cached_tokens": usage.cache_read_tokens,
            "cost_usd": usage.cost_usd,
            "extra": {name: count for name, count in extra.items() if count} or None,
        }
    )


def attempts(step: ModelStep) -> list[Document]:
    """Every attempt of a step, for steps that took more than one."""
    return [
        no_nulls(
            {
                "api_request_id": one.api_request_id,
                "provider": one.provider or None,
                "model": one.model or None,
                "status": one.status,
                "duration_ms": milliseconds(one.started_at, one.ended_at),
                "error": one.error or None,
            }
        )
        for one in step.attempts
    ]


def approvals(tool: ToolStep) -> list[Document]:
    """The questions that were asked about a call."""
    return [
        no_nulls(
            {
                "rules": list(one.rules),
                "description": one.description,
                "surface": one.surface,
                "choice": one.choice or None,
                "asked_at": iso(one.asked_at),
                "waited_ms": milliseconds(one.asked_at, one.answered_at),
            }
        )
        for one in tool.approvals
    ]


def iso(at: float) -> str:
    """Seconds since the epoch as RFC 3339 in UTC, to the microsecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def milliseconds(started_at: float, ended_at: float | None) -> int | None:
    """How long something took; None while it runs."""
    return None if ended_at is None else round((ended_at - started_at) * 1000)
