"""A run as lines of JSON, one per record, nothing left out: sessions, turns, model steps, tool calls, children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hermes.trace.records import SessionRecord

CANNOT_HOLD = ("Nothing that the records have. Secrets are masked, and the bytes of images left out.",)


def lines(session: SessionRecord) -> Iterator[bytes]:
    """A session and its descendants as lines, each saying what it is and to what it belongs."""
    encode = msgspec.json.Encoder().encode
    for kind, fields in _records(session):
        yield encode({"record": kind, **fields})


def _records(session: SessionRecord) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "session", _without(session, "turns", "children")
    for turn in session.turns:
        ids = {"session_id": session.id, "turn_id": turn.id}
        yield "turn", {"session_id": session.id, **_without(turn, "steps", "other_tools")}
        for step in turn.steps:
            yield "model_step", {**ids, **_without(step, "tools")}
            for tool in step.tools:
                yield "tool_call", {**ids, "step": step.number, **_without(tool)}
        for tool in turn.other_tools:
            yield "tool_call", {**ids, "step": None, **_without(tool)}
    for child in session.children:
        yield from _records(child)


def _without(record: msgspec.Struct, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__ if name not in names}
