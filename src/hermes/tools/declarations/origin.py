"""Origin of results: decides from its arguments whether a call of a built-in tool returns untrusted text."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.tools.registry import Args, ToolContext

#: An address, or a program that shows what another machine or a forge answers. A false alarm costs a few bytes.
_FETCHES = re.compile(
    r"://|\b(?:curl|wget|aria2c|lynx|w3m|nc|ncat|netcat|socat|telnet|ssh|gh|glab|s_client|requests|urllib|httpx)\b"
    r"|\b(?:web|a2a|mcp)_"
)


def fetches(args: Args, context: ToolContext) -> bool:
    """Whether a command gets something from the network, as far as its text says."""
    del context
    return mentions_network(str(args.get("command") or ""))


def script_fetches(args: Args, context: ToolContext) -> bool:
    """The same for a script, and whether a tool that it called returned untrusted text."""
    return context.saw_untrusted or mentions_network(str(args.get("code") or ""))


def mentions_network(text: str) -> bool:
    """Whether a command, a script or the input of an interpreter gets something from the network."""
    return _FETCHES.search(text) is not None


def shows_fetched(args: Args, context: ToolContext) -> bool:
    """Whether a call of ``process`` shows the output of a command that gets something from the network."""
    action, principal = args.get("action"), context.scope.principal
    if action == "list":
        return any(process.fetches for process in context.processes.all(principal))
    if action not in ("poll", "log", "wait"):
        return False
    process = context.processes.get(str(args.get("session_id")), principal)
    # One that is gone may have been anything: the process that ran it was started again since.
    return process is None or process.fetches


def reads_outside(args: Args, context: ToolContext) -> bool:
    """Whether a path lies outside of the working folder, links followed. What is inside is the user's own work."""
    from hermes.tools.files.paths import has_link_below, resolve_path

    folder = str(context.cwd)
    try:
        path = resolve_path(args.get("path") or ".", folder)
    except ValueError:
        return False  # the tool refuses such a path by itself
    if path.startswith(folder.rstrip("/") + "/") and not has_link_below(folder, path):
        return False
    path, folder = os.path.realpath(path), os.path.realpath(folder)
    return path != folder and not path.startswith(folder.rstrip("/") + "/")
