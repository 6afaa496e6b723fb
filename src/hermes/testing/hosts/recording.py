"""The recording of one surface, as the checks read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes.testing.hosts.conversation import PLUGINS, ProbeEvent, calls_of
from hermes.testing.scripted.script import RecordedRequest

Payload = dict[str, Any]


class HostRecording:
    """What one surface did with the conversation."""

    def __init__(
        self,
        events: Sequence[ProbeEvent],
        answer: str,
        requests: Sequence[RecordedRequest],
        platform: str,
        sender: str,
    ) -> None:
        self.events = events
        self.answer, self.requests, self.platform, self.sender = answer, requests, platform, sender
        #: The calls that each of the probes received.
        self.by_plugin = {number: calls_of(events, number) for number, _ in enumerate(PLUGINS, 1)}
        starts = [event.payload for event in self.by_plugin[1] if event.name == "subagent_start"]
        self.child = str(starts[0].get("child_session_id")) if starts else ""

    def of(self, name: str, plugin: int = 1, *, child: bool | None = False) -> list[Payload]:
        """The payloads of one site: of the main conversation, of the child's, or (``None``) of both."""
        found = [event.payload for event in self.by_plugin[plugin] if event.name == name]
        return [one for one in found if child is None or (one.get("session_id") == self.child) is child]

    def calls(self, name: str, plugin: int = 1) -> dict[str, Payload]:
        """The payloads of one site by their tool call."""
        return {str(payload.get("tool_call_id")): payload for payload in self.of(name, plugin, child=None)}

    def tool_messages(self) -> dict[str, str]:
        """What the model was given as the result of each call."""
        messages = [message for request in self.requests for message in request.messages]
        return {str(one["tool_call_id"]): str(one["content"]) for one in messages if one.get("role") == "tool"}
