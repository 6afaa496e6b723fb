"""The conversation that a host is judged by: what the model says in it, and what three probes must have seen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from hermes.contract.plugin import CONTEXT_METHODS, CONTEXT_PROPERTIES
from hermes.testing.hosts import probe
from hermes.testing.hosts.breaches import RecordedEvent
from hermes.testing.scripted.replies import ScriptedCall, ScriptedReply, failure, text, tool_call, tool_calls
from hermes.testing.scripted.script import RecordedRequest

#: What the user says.
MESSAGE = "Run the conformance conversation."
#: What the child agent is to do.
GOAL = "Do the part of a child."
#: What the user reads in the end: the model's last words, as the first plugin that had some made them.
ANSWER = "all done by 2"
#: The file that the conversation writes.
FILE = "conformance.py"
PLUGINS = ("conformance_1", "conformance_2", "conformance_3")
#: How often the model fails before it answers; a host has to allow as many retries.
FAILURES = 2

#: The calls of the probes' tool: the id of each and what the model said to it.
NOTES = {
    "note-one": "one",
    "note-both": "both",
    "note-change": "change",
    "note-ask": "ask",
    "note-late": "veto late",
    "note-early": "veto early",
    "note-allow": "allow",
    "note-refuse": "refuse",
    "note-child": "child",
}
#: The calls that a plugin wants approved, and what the model that reviews them makes of each.
REVIEWED = {"note-allow": "smart_approve", "note-refuse": "smart_deny"}
_VERDICTS = {f"{probe.REVIEW} allow": "APPROVE", f"{probe.REVIEW} refuse": "DENY"}


def _note(call: str) -> ScriptedCall:
    return ScriptedCall(probe.TOOL, {"say": NOTES[call]}, call)


_STEPS: tuple[ScriptedReply, ...] = (
    tool_calls((_note(name) for name in ("note-one", "note-both", "note-change", "note-ask")), content="I note it."),
    tool_calls(
        [
            _note("note-late"),
            _note("note-early"),
            ScriptedCall("no_such_tool", {}, "unknown"),
            _note("note-allow"),
            _note("note-refuse"),
        ]
    ),
    tool_call("terminal", {"command": "echo seen"}, call_id="command"),
    tool_call("write_file", {"path": FILE, "content": "done = True\n"}, call_id="file"),
    tool_call("delegate_task", {"goal": GOAL}, call_id="child"),
    text("finished"),
)
_CHILD = (tool_calls([_note("note-child")]), text("child done"))


class ProbeEvent(msgspec.Struct, frozen=True):
    """One line of the recording."""

    #: Which of the probes saw it, from 1.
    plugin: int
    pid: int
    name: str
    #: ``call``; ``return`` of execution middleware; ``run`` of the tool; ``load`` and ``unload`` of the probe.
    phase: str
    payload: dict[str, Any]


class HostConversation:
    """One run of the conversation on one surface of a host.

    Install the probes where the host finds plugins, enable them, and give the host
    ``ScriptedProvider(conversation.reply)`` as its model, with two retries and as the reviewer of what needs an
    approval. Say ``MESSAGE`` on the surface, end the host, and look at ``breaches``.
    """

    def __init__(self, recording: Path) -> None:
        self._recording = recording
        self._failures = 0

    def install(self, plugins: Path) -> None:
        """Put the three probes into a folder of plugins."""
        for number, name in enumerate(PLUGINS, 1):
            folder = plugins / name
            folder.mkdir(parents=True)
            shutil.copyfile(probe.__file__, folder / "__init__.py")
            (folder / "plugin.yaml").write_text(f"name: {name}\n")
            settings = {
                "number": number,
                "recording": str(self._recording),
                "hooks": [*HOOKS],
                "kinds": [*MIDDLEWARE],
                "members": [*CONTEXT_PROPERTIES, *CONTEXT_METHODS],
            }
            (folder / "probe.json").write_text(json.dumps(settings))

    def reply(self, request: RecordedRequest) -> ScriptedReply:
        """The script of the model."""
        said = request.last_user_text
        if said == probe.ASIDE:
            return text("an aside")
        for question, verdict in _VERDICTS.items():
            if question in said:
                return text(verdict)
        if said.startswith("check by"):
            return text("all done")
        steps = _CHILD if GOAL in said else _STEPS
        if steps is _STEPS and self._failures < FAILURES:
            self._failures += 1
            return failure(503, headers={"retry-after": "0"})
        return steps[request.step] if request.step < len(steps) else failure(400, "the conversation is over")

    @property
    def events(self) -> list[ProbeEvent]:
        """What the probes recorded, oldest first."""
        if not self._recording.exists():
            return []
        return [msgspec.json.decode(line, type=ProbeEvent) for line in self._recording.read_bytes().splitlines()]

    def breaches(
        self, answer: str, requests: Sequence[RecordedRequest], *, platform: str, sender: str = ""
    ) -> list[str]:
        """Every way in which the host broke the contract.

        ``answer`` is what the surface showed, ``requests`` is what the model received; ``platform`` and ``sender`` are
        what the contract calls the surface and its user.
        """
        from hermes.testing.hosts.checks import CHECKS
        from hermes.testing.hosts.recording import HostRecording

        recording = HostRecording(self.events, answer, requests, platform, sender)
        if not recording.of("on_session_end"):
            return ["no turn was recorded: are the probes enabled, and was the message given to the agent?"]
        return [f"{check.__name__}: {found}" for check in CHECKS for found in dict.fromkeys(check(recording))]


def calls_of(events: Sequence[ProbeEvent], plugin: int) -> list[RecordedEvent]:
    """The calls of one probe as a recording."""
    return [
        RecordedEvent(event.name, event.payload) for event in events if (event.plugin, event.phase) == (plugin, "call")
    ]
