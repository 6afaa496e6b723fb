"""Figures and recorded events as text, for the actions of ``hermes trace`` and other reports."""

from __future__ import annotations

from typing import Any

from hermes.journal.bodies import message_text
from hermes.surfaces.cli.terminal import short_duration, terminal_width

_NARROWEST = 24
#: Below this width some columns are left out.
NARROW = 60
_WIDTH_WITHOUT_TERMINAL = 100


def width() -> int:
    """Columns for the output; a fixed number when it is not a terminal."""
    return max(terminal_width(_WIDTH_WITHOUT_TERMINAL), _NARROWEST)


def duration(seconds: float | None) -> str:
    """A duration in few characters; a dash for an unknown one."""
    return "-" if seconds is None else short_duration(seconds)


def cost(usd: float | None) -> str:
    """An amount in US dollars; a dash for an unknown one."""
    if usd is None:
        return "-"
    # Small sums need more places.
    return f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}"


Body = dict[str, Any]


def event_text(kind: str, key: str, body: Body) -> str:
    """A recorded event as one line of text."""
    if kind == "turn_started":
        return message_text(body["message"])
    if kind == "turn_ended":
        return f"{body['state']}{': ' + body['error'] if body.get('error') else ''}"
    if kind == "attempt_failed":
        return f"{body['reason']}: {body['error']}"
    if kind == "turn_resumed":
        return f"in flight: {', '.join(body['in_flight'])}" if body["in_flight"] else ""
    if kind.startswith(("step_", "dispatch_")):
        return _step_text(kind, key.partition(":")[0], body)
    return compaction(body) if kind == "compacted" else ""


def _step_text(kind: str, what: str, body: Body) -> str:
    if what in ("tool", "dispatch"):
        if kind.endswith("_claimed"):
            return f"{body['name']} is about to run"
        return f"{body['name']} {body['status']}, {duration(body['duration_ms'] / 1000)}"
    if what == "model":
        reply = body["reply"]
        calls = ", ".join(call["name"] for call in reply["tool_calls"])
        return f"calls {calls}" if calls else reply["content"]
    if what == "compact":
        return compaction(body)
    if what == "final":
        return body["text"]
    return f"{len(body['tools'])} tools offered" if what == "setup" else ""


def compaction(body: Body) -> str:
    """How much a compaction saved."""
    return f"about {body['tokens_before']:,} tokens reduced to {body['tokens_after']:,}"
