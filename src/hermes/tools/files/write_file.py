"""The ``write_file`` tool: create a file or replace all of it."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from hermes.tools.files.atomic import FileChange, apply_changes
from hermes.tools.files.guard import mark_refusal
from hermes.tools.files.opening import writable_target
from hermes.tools.files.paths import display_path, kind_of, resolve_path, why
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result


def run_write_file(args: Args, context: ToolContext) -> str:
    """Write ``content`` to ``path``; see the tool's schema."""
    content = args.get("content")
    if not isinstance(content, str):
        return tool_error("content must be a string with the whole text of the file")
    try:
        path = resolve_path(args.get("path"), context.cwd)
        data = content.encode()
        target = writable_target(path, context)
    except UnicodeEncodeError as error:
        return tool_error(f"content has a character at position {error.start} that no UTF-8 text can hold")
    except ValueError as error:
        return tool_error(str(error))
    refused = mark_refusal(content) or _cannot_be_replaced(path)
    if refused:
        return tool_error(refused)
    change = FileChange(target, before=None, after=data)
    if target != os.devnull:
        try:
            apply_changes([change])
        except OSError as error:
            return tool_error(f"{path} was not written: {why(error)}")
    return tool_result(
        bytes_written=len(data),
        dirs_created=bool(change.directories),
        resolved_path=target,
        files_modified=[target],
    )


#: Longer texts are shown by their first lines.
_MOST_COMPARED = 200_000


def preview_write(args: Args, context: ToolContext) -> str:
    """The diff that a call would make; empty when it cannot be told."""

    def read(path: str) -> bytes:
        with context.open(path, "rb") as file:
            return file.read(_MOST_COMPARED + 1)

    return write_diff(args, context.cwd, read)


def write_diff(args: Args, cwd: Path, read: Callable[[str], bytes] = lambda path: Path(path).read_bytes()) -> str:
    """The diff between a file as it is and as a call would write it; empty when it cannot be told."""
    from hermes.tools.files.draft import unified_diff  # only needed where a person looks

    content = args.get("content")
    try:
        path = resolve_path(args.get("path"), cwd)
        before = read(path) if Path(path).is_file() else b""
    except (ValueError, OSError):
        return ""
    if not isinstance(content, str) or len(before) > _MOST_COMPARED or len(content) > _MOST_COMPARED:
        return ""
    name = display_path(path, cwd)
    return unified_diff(before.decode("utf-8", "replace") if before else None, content, name, name)


def _cannot_be_replaced(path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path} was not written: {why(error)}"
    if stat.S_ISREG(mode) or path == os.devnull:
        return None
    return f"{path} is {kind_of(mode)}, not a file; choose another path"
