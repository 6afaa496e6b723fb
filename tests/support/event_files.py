"""A plugin that writes every event of every process of a home to one file, and what that file says."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hermes.contract.hooks import HOOKS
from hermes.contract.middleware import MIDDLEWARE
from support.configured import write_plugin

#: The configuration that enables it.
ENABLED = "plugins:\n  enabled: [writer]\n"

_PLUGIN = """
import json, os
HOOKS = {hooks!r}
KINDS = {kinds!r}
KEPT = ("api_request_id", "tool_call_id", "surface", "choice", "decided_by")

def register(ctx):
    for name in HOOKS:
        ctx.register_hook(name, observer(name))
    for kind in KINDS:
        ctx.register_middleware(kind, middleware(kind))

def note(name, kw):
    line = json.dumps({{"pid": os.getpid(), "name": name}} | {{key: kw[key] for key in KEPT if key in kw}}) + "\\n"
    with open({path!r}, "a") as file:
        file.write(line)

def observer(name):
    def observe(**kw):
        note(name, kw)
    return observe

def middleware(kind):
    def pass_on(**kw):
        note(kind, kw)
        if kind.endswith("_execution"):
            return kw["next_call"]()
    return pass_on
"""


class EventFile:
    """The file."""

    def __init__(self, home: Path, path: Path) -> None:
        self._path = path
        write_plugin(home, "writer", _PLUGIN.format(hooks=list(HOOKS), kinds=list(MIDDLEWARE), path=str(path)))

    def events(self, name: str = "") -> list[dict[str, Any]]:
        """The events, oldest first: all, or those of one site."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [event for event in map(json.loads, lines) if name in ("", event["name"])]

    def fired(self) -> dict[int, Counter[str]]:
        """How often each site fired, for each process in the order of their first event."""
        events = self.events()
        pids = dict.fromkeys(event["pid"] for event in events)
        return {pid: _counted(event for event in events if event["pid"] == pid) for pid in pids}


def _counted(events: Iterable[dict[str, Any]]) -> Counter[str]:
    """Of the pieces of streams, how many attempts had any."""
    fired = Counter[str]()
    attempts = set[str]()
    for event in events:
        if event["name"] == "on_stream_delta":
            attempts.add(event["api_request_id"])
        else:
            fired[event["name"]] += 1
    return fired + Counter({"on_stream_delta": len(attempts)})
