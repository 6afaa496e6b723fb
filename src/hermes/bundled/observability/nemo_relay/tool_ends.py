"""The status of managed tool calls, which the runtime's own ends carry where a release lets metadata be added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from .relay import Relay


class ToolEnds:
    """Adds ``status`` to the ends of managed tool calls. Without the ids of calls, or on older releases, nothing."""

    def __init__(self, relay: Relay, name: str) -> None:
        self._relay, self._name = relay, name
        #: The status of calls whose end is under way, by session and call.
        self._under_way: dict[tuple[str, str], str] = {}

    def open(self) -> None:
        """Begin to add."""
        self._relay.add_metadata(self._name, self.metadata)

    def close(self) -> None:
        """Stop, once the events are out."""
        self._relay.stop_adding(self._name)
        self._under_way.clear()

    def note(self, session_id: str, tool_call_id: str, status: str) -> None:
        """A call is over; before the runtime knows."""
        if self._relay.adds_metadata:
            self._under_way[session_id, tool_call_id] = status

    def metadata(self, event: Any) -> dict[str, str]:
        """What is added to an event, on the runtime's thread. An error here would cost the event its content."""
        try:
            if event.kind != "scope" or (event.category, event.scope_category) != ("tool", "end"):
                return {}
            key = (event.metadata["session_id"], event.category_profile["tool_call_id"])
            return {"status": self._under_way.pop(key)}
        except (AttributeError, KeyError, TypeError):
            return {}  # not one of ours


def status_of(result: Any) -> str:
    """``error`` for a result that is an object with an error in it, as everywhere."""
    if isinstance(result, str) and result.startswith("{") and '"error"' in result:
        try:
            result = json.loads(result)
        except (ValueError, RecursionError):
            return "ok"
    failed = isinstance(result, Mapping) and bool(cast("Mapping[str, Any]", result).get("error"))
    return "error" if failed else "ok"
