"""Tool calls and child agents as lines of text, running and finished."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from hermes.base.sanitize import Redactor, is_secret_key
from hermes.contract.events import ChildActivity, ChildEnded, ChildStarted, ToolEnded, ToolStarted
from hermes.surfaces.cli.chat.tool_details import exit_code
from hermes.surfaces.cli.terminal import cells, fitted, one_line, running_time, short_duration
from hermes.tools.declarations.builtin import builtin_declaration
from hermes.tools.declarations.declaration import Declaration

#: What the tool with a name declares.
Declarations = Callable[[str], Declaration]

#: Longest subject that is processed.
_LONGEST = 2_000
#: Longest subject on a line without a width limit.
_USUAL = 100
#: Longest error below a line.
_LONGEST_ERROR = 400
#: Frames of the spinner per second.
_FRAMES = 8
_CHILD_INDENT = "  "


class Symbols(msgspec.Struct, frozen=True):
    """The symbols in the lines."""

    ok: str
    failed: str
    spinner: str
    ellipsis: str
    arrow: str


UNICODE = Symbols("✓", "✗", "⠋⠙⠹⠸⠼⠴⠦⠧", "…", "→")
ASCII = Symbols("+", "x", "|/-\\", "...", "->")


class Running(msgspec.Struct, frozen=True):
    """A running call or child. Name and subject are computed once, not per frame."""

    name: str
    subject: str
    since: float
    indent: str = ""
    #: The tool call that a child is at.
    activity: str = ""


def whole_error(event: ToolEnded, redactor: Redactor, limit: int = _LONGEST_ERROR) -> str:
    """Why a call failed, in more words than its line has room for; empty when it did not."""
    return "" if event.status == "ok" else _error(event.status, event.error_message, redactor, limit)


def has_failed(event: ToolEnded, declared: Declaration) -> bool:
    """Whether a call failed: the call itself, or the command that it ran."""
    return event.status != "ok" or bool(exit_code(event, declared))


class ToolLines:
    """The lines of tool calls and child agents, finished and running. Updated by one thread, drawn by another."""

    def __init__(
        self,
        redactor: Redactor,
        clock: Callable[[], float] = time.monotonic,
        *,
        symbols: Symbols = UNICODE,
        most: int = 8,
        declaration: Declarations = builtin_declaration,
    ) -> None:
        self._declaration = declaration
        self._redactor = redactor
        self._clock = clock
        self._symbols = symbols
        self._most = most
        #: By the id of the call, or of the child's session.
        self._running: dict[str, Running] = {}

    def started(self, event: ToolStarted | ChildStarted) -> None:
        """Add a call or a child."""
        now = self._clock()
        if isinstance(event, ChildStarted):
            goal = _safe(event.child_goal, self._redactor)
            self._running[event.child_session_id] = Running(_child_name(event), goal, now, _CHILD_INDENT)
        else:
            subject = subject_of(self._declaration(event.tool_name), event.args, self._redactor)
            self._running[event.tool_call_id] = Running(_name(event.tool_name), subject, now)

    def child_does(self, event: ChildActivity) -> None:
        """Show what a running child does now, after its goal."""
        running = self._running.get(event.child_session_id)
        if running is not None:
            subject = subject_of(self._declaration(event.tool_name), event.args, self._redactor)
            now = f"{_name(event.tool_name)} {subject}".rstrip()
            self._running[event.child_session_id] = replace(running, activity=now)

    def finished(self, event: ToolEnded | ChildEnded, *, width: int | None = None) -> str:
        """The line of a call or a child, which runs no more. With a width, subject and then error are cut to fit."""
        if isinstance(event, ChildEnded):
            self._running.pop(event.child_session_id, None)
            has_ended_well, name, indent = event.child_status == "completed", _child_name(event), _CHILD_INDENT
            subject = _safe(event.child_goal, self._redactor)
            error = "" if has_ended_well else _error(event.child_status, event.child_error, self._redactor)
        else:
            self._running.pop(event.tool_call_id, None)
            declared = self._declaration(event.tool_name)
            has_ended_well, name, indent = not has_failed(event, declared), _name(event.tool_name), ""
            subject = subject_of(declared, event.args, self._redactor)
            code = exit_code(event, declared)
            error = f"exit {code}" if code else whole_error(event, self._redactor, _USUAL)
        head = f"{indent}{self._symbols.ok if has_ended_well else self._symbols.failed} {name}"
        return self._fitted(head, subject, short_duration(event.duration_ms / 1000), error, width)

    def clear(self) -> None:
        """Remove all calls: the turn has ended."""
        self._running.clear()

    def lines(self, width: int) -> list[str]:
        """The running calls, the longest-running first."""
        running = list(self._running.values())
        now = self._clock()
        shown = running if len(running) <= self._most else running[: self._most - 1]
        lines = [self.running(what, width, now) for what in shown]
        if len(shown) < len(running):
            lines.append(fitted(f"  and {len(running) - len(shown)} more", width, self._symbols.ellipsis))
        return lines

    def running(self, what: Running, width: int, now: float) -> str:
        """The line of what runs, with the current frame of the spinner."""
        symbols, elapsed = self._symbols, max(now - what.since, 0)
        frame = symbols.spinner[int(elapsed * _FRAMES) % len(symbols.spinner)]
        head, subject = f"{what.indent}{frame} {what.name}", what.subject
        if what.activity:
            # What happens now matters more than the goal.
            room = max(width // 3, width - cells(head) - cells(what.activity) - 15)
            goal = fitted(subject, room, symbols.ellipsis) if width - cells(head) - room > 20 else ""
            subject = f"{goal} {symbols.arrow} {what.activity}" if goal else what.activity
        return self._fitted(head, subject, running_time(elapsed), "", width)

    def _fitted(self, head: str, subject: str, duration: str, error: str, width: int | None) -> str:
        ellipsis = self._symbols.ellipsis
        if width is None:
            subject = fitted(subject, _USUAL, ellipsis)
            return "  ".join(filter(None, (f"{head} {subject}".rstrip(), duration, error)))
        if error:
            # At most a third of the line is for the subject; the rest is for the error.
            subject_room = min(cells(subject) + 1, width // 3)
            error_room = width - cells(head) - subject_room - len(duration) - 4
            error = fitted(error, max(error_room, width // 3), ellipsis)
        ending = f"  {duration}  {error}".rstrip()
        room = width - cells(head) - 1 - cells(ending)
        subject = fitted(subject, room, ellipsis) if room > len(ellipsis) else ""
        return fitted(f"{f'{head} {subject}'.rstrip()}{ending}", width, ellipsis)


def subject_of(declared: Declaration, args: dict[str, Any], redactor: Redactor) -> str:
    """The subject of a call, on one line and redacted."""
    if declared.shown.detail == "tasks":
        subject = _todo_counts(args)
    else:
        subject = next(filter(None, (_subject(name, args.get(name)) for name in declared.shown.subject)), "")
        subject = subject or ", ".join(islice(declared.named_paths(args), 5)) or _first_plain_value(args)
    return _safe(subject, redactor)


def _subject(name: str, value: object) -> str:
    if isinstance(value, list):
        return f"{len(cast('list[Any]', value))} {name}"
    return value if isinstance(value, str) else ""


def _name(name: str) -> str:
    return one_line(name, 40)


def _child_name(event: ChildStarted | ChildEnded) -> str:
    return f"child {event.task_index + 1}:"


def _error(status: str, error: str | None, redactor: Redactor, limit: int = _USUAL) -> str:
    text = error or ""
    if not text.startswith(f"{status}: "):
        text = f"{status}: {text}"
    return one_line(_safe(text, redactor), limit)


def _safe(text: str, redactor: Redactor) -> str:
    """The beginning of the text on one line, redacted; not cut inside a secret, whose half would not be recognised."""
    if len(text) > _LONGEST:
        text = text[: redactor.start_of_secret_at(text, _LONGEST)] + "…"
    return one_line(redactor.redact(text), _LONGEST)


def _first_plain_value(args: dict[str, Any]) -> str:
    """The first scalar argument whose name is not a secret's."""
    for name, value in args.items():
        if isinstance(value, str | int | float) and value != "" and not is_secret_key(name):
            return str(value)
    return ""


def _todo_counts(args: dict[str, Any]) -> str:
    todos = args.get("todos")
    if not isinstance(todos, list):
        return "list"
    counts: dict[str, int] = {}
    for todo in cast("list[Any]", todos):
        status = cast("dict[str, Any]", todo).get("status") if isinstance(todo, dict) else None
        status = status if isinstance(status, str) else "pending"
        counts[status] = counts.get(status, 0) + 1
    named = [f"{count} {status.replace('_', ' ')}" for status, count in counts.items()]
    return ", ".join(named[:5]) or "empty list"
