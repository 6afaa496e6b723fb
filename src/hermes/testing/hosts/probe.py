"""The probe: a plugin that records every event of a host, and acts where several plugins meet.

It is copied into a host's plugin folders and imports nothing of Hermes. ``probe.json`` beside it says which of the
three it is and where the recording goes. The first and the third act; the second fails and spoils what it is given.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

TOOL = "conformance_note"
SCHEMA = {
    "name": TOOL,
    "description": "Notes what is said.",
    "parameters": {"type": "object", "properties": {"say": {"type": "string"}}, "required": ["say"]},
}

#: What the tool asks the model beside the conversation.
ASIDE = "A question beside the conversation."

#: What the first wants approved, before the word of the call.
REVIEW = "Conformance review:"

#: Where the second one answers as the others do.
HEARD = ("transform_llm_output", "transform_terminal_output")

_lock = threading.Lock()


def register(ctx: Any) -> None:
    """Listen to everything that the contract names."""
    settings = json.loads(Path(__file__).with_name("probe.json").read_text())
    probe = Probe(ctx, settings["number"], Path(settings["recording"]))
    for hook in settings["hooks"]:
        ctx.register_hook(hook, probe.observer(hook))
    for kind in settings["kinds"]:
        ctx.register_middleware(kind, probe.middleware(kind))
    missing = [name for name in settings["members"] if not hasattr(ctx, name)]
    probe.record("register", "load", {"missing": missing})
    if hasattr(ctx, "on_unload"):
        ctx.on_unload(lambda: probe.record("on_unload", "unload", {}))
    if probe.number == 1:
        ctx.register_tool(TOOL, "conformance", SCHEMA, probe.note)


class Probe:
    """One of the three plugins."""

    def __init__(self, ctx: Any, number: int, recording: Path) -> None:
        self._ctx = ctx
        self.number = number
        self._recording = recording
        self._failing: dict[str, bool] = {}

    def record(self, name: str, phase: str, payload: dict[str, Any]) -> None:
        """Append an event to the recording, as a line of JSON."""
        event = {"plugin": self.number, "pid": os.getpid(), "name": name, "phase": phase, "payload": payload}
        line = json.dumps(event, default=lambda value: f"<{type(value).__name__}>") + "\n"
        with _lock, self._recording.open("a", encoding="utf-8") as file:
            file.write(line)

    def note(self, args: dict[str, Any], **_: Any) -> str:
        """The tool: it repeats what it was given, and asks the model when it is to ask."""
        self.record(TOOL, "run", {"args": args})
        if str(args.get("say")).startswith("ask"):
            self._ctx.llm.complete([{"role": "user", "content": ASIDE}], purpose="conformance")
        return json.dumps({"noted": args.get("say")})

    def observer(self, hook: str) -> Any:
        """The callback for a hook."""

        def observe(**payload: Any) -> Any:
            self.record(hook, "call", payload)
            return self.act(hook, payload)

        return observe

    def middleware(self, kind: str) -> Any:
        """The callback for a kind of middleware."""

        def wrap(next_call: Any = None, **payload: Any) -> Any:
            self.record(kind, "call", payload)
            answer = self.act(kind, payload)
            if next_call is None:
                return answer
            result = next_call()
            self.record(kind, "return", {name: payload.get(name) for name in ("api_request_id", "tool_call_id")})
            return result

        return wrap

    def act(self, site: str, payload: dict[str, Any]) -> Any:
        """What this plugin answers there. Where it is not to be heard, the second fails instead."""
        if self.number == 2 and site not in HEARD:
            # Not every time: a host may leave out a callback that only fails.
            self._failing[site] = not self._failing.get(site, False)
            if self._failing[site]:
                spoil({name: value for name, value in payload.items() if (site, name) != ("pre_tool_call", "args")})
                raise RuntimeError(f"the second probe fails in {site}")
            return None
        act = getattr(self, site, None)
        return None if act is None else act(payload)

    # -- where several plugins meet ------------------------------------------------------------------------------

    def llm_request(self, payload: dict[str, Any]) -> Any:
        """Both replacements count, one after the other."""
        request = payload["request"]
        return {"request": {**request, "user": request.get("user", "") + str(self.number)}}

    def tool_request(self, payload: dict[str, Any]) -> Any:
        """The same for the arguments of the probe's own tool."""
        args = payload["args"]
        return {"args": {**args, "say": args["say"] + str(self.number)}} if payload["tool_name"] == TOOL else None

    def pre_tool_call(self, payload: dict[str, Any]) -> Any:
        """The first changes an argument. A veto beats a question, whoever is first."""
        said = str(payload["args"].get("say", ""))
        if said.startswith("change") and self.number == 1:
            return {"action": "modify", "args": {"say": f"{said}!"}}
        if said.startswith(("allow", "refuse")) and self.number == 1:
            word = said.rstrip("123")
            return {"action": "approve", "message": f"{REVIEW} {word}", "rule_key": f"conformance_{word}"}
        if not said.startswith("veto"):
            return None
        vetoes = said.startswith("veto late") == (self.number == 3)
        return {"action": "block", "message": f"veto of {self.number}"} if vetoes else {"action": "approve"}

    def transform_tool_result(self, payload: dict[str, Any]) -> Any:
        """The first text counts: of the third, and where both say something of the first."""
        said = str(payload["args"].get("say", ""))
        return f"result for {said} by {self.number}" if self.number == 3 or said.startswith("both") else None

    def transform_terminal_output(self, payload: dict[str, Any]) -> Any:
        """The first text counts: that of the second."""
        return None if self.number == 1 else f"{payload['output']} by {self.number}"

    def transform_llm_output(self, payload: dict[str, Any]) -> Any:
        """The first text that is not empty counts: that of the second."""
        return "" if self.number == 1 else f"{payload['response_text']} by {self.number}"

    def pre_llm_call(self, _payload: dict[str, Any]) -> Any:
        """Both contexts are added, in order."""
        return "context of 1" if self.number == 1 else {"context": "context of 3"}

    def pre_verify(self, payload: dict[str, Any]) -> Any:
        """The first that wants the turn to go on is heard."""
        return {"action": "continue", "message": f"check by {self.number}"} if payload["attempt"] == 0 else None


def spoil(payload: dict[str, Any]) -> None:
    """Change everything that can be changed in place."""
    for value in payload.values():
        if isinstance(value, dict | list):
            value.clear()
