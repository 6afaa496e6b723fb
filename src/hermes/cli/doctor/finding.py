"""What an examination brings to light, one finding at a time."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Status = Literal["ok", "warning", "broken", "skipped"]


class Finding(Struct, frozen=True):
    """One line of the report."""

    status: Status
    #: What was looked at, in a word or two.
    what: str
    detail: str
    #: What to do about it, in a sentence; empty when there is nothing to do or ``command`` says it.
    fix: str = ""
    #: The command that puts it right or shows more.
    command: str = ""
    #: Whether ``--fix`` has just repaired it.
    fixed: bool = False
    #: Whether ``--fix`` would repair it.
    fixable: bool = False


def ok(what: str, detail: str, *, fixed: bool = False) -> Finding:
    """Something in order."""
    return Finding("ok", what, detail, fixed=fixed)


def warning(what: str, detail: str, fix: str = "", *, command: str = "", fixable: bool = False) -> Finding:
    """Something that works, and deserves a look."""
    return Finding("warning", what, detail, fix, command, fixable=fixable)


def broken(what: str, detail: str, fix: str = "", *, command: str = "", fixable: bool = False) -> Finding:
    """Something that does not work."""
    return Finding("broken", what, detail, fix, command, fixable=fixable)


def skipped(what: str, detail: str) -> Finding:
    """Something that was not looked at, and why."""
    return Finding("skipped", what, detail)


def size(count: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if count >= 10 or unit == "bytes" else f"{count:.1f} {unit}"
