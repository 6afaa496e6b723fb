"""Recorded events in a few words."""

from __future__ import annotations

from typing import Any

from hermes.cli.trace.desk import duration
from hermes.journal.bodies import message_text

Body = dict[str, Any]


def event_words(kind: str, key: str, body: Body) -> str:
    """What an event says, in one line."""
    if kind == "turn_started":
        return message_text(body["message"])
    if kind == "turn_ended":
        return f"{body['state']}{': ' + body['error'] if body.get('error') else ''}"
    if kind == "attempt_failed":
        return f"{body['reason']}: {body['error']}"
    if kind == "turn_resumed":
        return f"in flight: {', '.join(body['in_flight'])}" if body["in_flight"] else ""
    if kind.startswith(("step_", "dispatch_")):
        return _step_words(kind, key.partition(":")[0], body)
    return _compaction(body) if kind == "compacted" else ""


def _step_words(kind: str, what: str, body: Body) -> str:
    if what in ("tool", "dispatch"):
        if kind.endswith("_claimed"):
            return f"{body['name']} is about to run"
        return f"{body['name']} {body['status']}, {duration(body['duration_ms'] / 1000)}"
    if what == "model":
        reply = body["reply"]
        calls = ", ".join(call["name"] for call in reply["tool_calls"])
        return f"asks for {calls}" if calls else reply["content"]
    if what == "compact":
        return _compaction(body)
    if what == "final":
        return body["text"]
    return f"{len(body['tools'])} tools offered" if what == "setup" else ""


def _compaction(body: Body) -> str:
    return f"about {body['tokens_before']:,} tokens became {body['tokens_after']:,}"
