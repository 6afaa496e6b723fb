"""A session as an OTLP/JSON document, the form in which collectors take spans, made without any SDK."""

from __future__ import annotations

from typing import Any

from hermes.base.version import __version__
from hermes.trace.formats import genai
from hermes.trace.formats.genai import AGENT_NAME, SCHEMA_URL, Attributes
from hermes.trace.formats.spans import Span, SpanEvent, SpanTree, Vocabulary
from hermes.trace.records import SessionRecord

_KINDS = {"internal": 1, "client": 3}
_ERROR = 2


def export(session: SessionRecord, *, content: bool = True) -> dict[str, Any]:
    """A session with its descendants, in the words of the GenAI conventions.

    A request holds only the messages that no earlier one had. ``content=False`` leaves out what was said.
    """
    return document(session, genai, content=content)


def document(session: SessionRecord, words: Vocabulary, *, content: bool = True) -> dict[str, Any]:
    """The same in the words of any vocabulary."""
    spans = [_span(span) for span in SpanTree(words, content).spans(session)]
    resource: Attributes = {"service.name": AGENT_NAME, "service.version": __version__}
    scope = {"name": "hermes.trace", "version": __version__}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": spans, "schemaUrl": SCHEMA_URL}],
                "schemaUrl": SCHEMA_URL,
            }
        ]
    }


def _span(span: Span) -> dict[str, Any]:
    status: dict[str, Any] = {"code": _ERROR, "message": span.error} if span.is_error else {}
    encoded: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": _nanoseconds(span.started_at),
        "endTimeUnixNano": _nanoseconds(max(span.ended_at, span.started_at)),
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
        "status": status,
    }
    if span.parent_id:
        encoded["parentSpanId"] = span.parent_id
    return encoded


def _event(event: SpanEvent) -> dict[str, Any]:
    return {
        "name": event.name,
        "timeUnixNano": _nanoseconds(event.at),
        "attributes": _attributes(event.attributes),
    }


def _nanoseconds(seconds: float) -> str:
    # JSON has no integers of 64 bits, so that OTLP writes them as text.
    return str(int(seconds * 1_000_000) * 1_000)


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: str | int | float | bool | list[str]) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [{"stringValue": item} for item in value]}}
    return {"stringValue": value}
