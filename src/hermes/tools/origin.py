"""The origin of a result: whether a call of a built-in tool brings text of strangers, by its arguments."""

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
    """Whether a command or a script gets something from the network, as far as its text says."""
    del context
    return _FETCHES.search(str(args.get("command") or args.get("code") or "")) is not None


def reads_outside(args: Args, context: ToolContext) -> bool:
    """Whether a path lies outside of the working folder, links followed. What is inside is the user's own work."""
    from hermes.tools.files.paths import resolve_path

    try:
        path = os.path.realpath(resolve_path(args.get("path") or ".", context.cwd))
    except ValueError:
        return False  # the tool refuses such a path by itself
    folder = os.path.realpath(context.cwd)
    return path != folder and not path.startswith(folder.rstrip("/") + "/")
