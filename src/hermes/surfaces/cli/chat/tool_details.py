"""Details of a finished tool call: the diff of an edit, the last lines of a command, the task list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from hermes.agent.tools.todo import Item, items_in
from hermes.contract.events import ToolEnded
from hermes.surfaces.cli.terminal import plain
from hermes.tools.declarations.declaration import Declaration, Detail

#: Lines that are shown below the line of a call; the rest is folded.
COMMAND_LINES = 5
DIFF_LINES = 24
#: Longest result that is looked into: parsing more would delay the prompt.
_LONGEST_RESULT = 4 * 1024 * 1024

LineKind = Literal["plain", "added", "removed", "place", "note"]

_BOXES = {"completed": "[x]", "in_progress": "[>]", "cancelled": "[-]"}


class DetailLine(msgspec.Struct, frozen=True):
    """One line, and what it is, for its colour."""

    text: str
    kind: LineKind = "plain"


class RecordedCall(msgspec.Struct, frozen=True):
    """A finished tool call as the journal has it."""

    tool_name: str
    args: dict[str, Any]
    result: str
    status: str


FinishedCall = ToolEnded | RecordedCall


def exit_code(event: FinishedCall, declared: Declaration) -> int | None:
    """The exit code of the command that a call ran; None for other calls and for commands that still run."""
    if declared.shown.detail != "output" or event.status != "ok":
        return None
    code = _document(event).get("exit_code")
    return code if isinstance(code, int) else None


def replaced_text_diff(declared: Declaration, args: dict[str, Any], cwd: Path) -> str:
    """The diff that a call is about to make to a file that exists; empty for other calls and for a new file."""
    if declared.shown.detail != "content":
        return ""
    from hermes.tools.files.write_file import write_diff

    diff = write_diff(args, cwd)
    return "" if diff.startswith("--- /dev/null\n") else diff


def detail_lines(event: FinishedCall, declared: Declaration, diff: str = "") -> list[DetailLine]:
    """All lines there are about a finished call; ``diff`` is what it changed, where its result does not say it."""
    make = _DETAILS.get(declared.shown.detail)
    if make is None or event.status != "ok":
        return []
    return _diff_lines(plain(diff).splitlines())[1:] if diff else make(event)


def whole_result(event: FinishedCall, declared: Declaration, diff: str = "") -> list[DetailLine]:
    """The details; for a tool without any, its result."""
    lines = detail_lines(event, declared, diff)
    return lines or [DetailLine(line) for line in plain(event.result).splitlines()]


def folded_details(event: FinishedCall, declared: Declaration, diff: str = "") -> list[DetailLine]:
    """The lines shown below the line of a call: the end of an output, the beginning of a diff."""
    lines = detail_lines(event, declared, diff)
    if declared.shown.detail == "output":
        hidden = len(lines) - COMMAND_LINES
        return lines if hidden <= 0 else [_folded(hidden, "earlier"), *lines[-COMMAND_LINES:]]
    hidden = len(lines) - DIFF_LINES
    return lines if hidden <= 0 else [*lines[:DIFF_LINES], _folded(hidden, "more")]


def _folded(count: int, which: str) -> DetailLine:
    return DetailLine(f"... {count:,} {which} {'line' if count == 1 else 'lines'}", "note")


def _output(event: FinishedCall) -> list[DetailLine]:
    output = _document(event).get("output")
    return [DetailLine(line) for line in plain(output).rstrip().splitlines()] if isinstance(output, str) else []


def _diff(event: FinishedCall) -> list[DetailLine]:
    diff = _document(event).get("diff")
    return _diff_lines(plain(diff).splitlines()) if isinstance(diff, str) else []


def _diff_lines(lines: Sequence[str]) -> list[DetailLine]:
    shown: list[DetailLine] = []
    pairs = zip(lines, [*lines[1:], ""], strict=True)
    is_header = [line.startswith("--- ") and below.startswith("+++ ") for line, below in pairs]
    for number, line in enumerate(lines):
        if is_header[number]:
            continue
        if number and is_header[number - 1]:
            shown.append(DetailLine(line[4:].removeprefix("b/"), "place"))
        elif line.startswith("@@"):
            shown.append(DetailLine(line, "place"))
        else:
            kind: LineKind = "added" if line.startswith("+") else "removed" if line.startswith("-") else "plain"
            shown.append(DetailLine(line, kind))
    return shown


def _written(event: FinishedCall) -> list[DetailLine]:
    content: object = event.args.get("content")
    return [DetailLine(f"+{line}", "added") for line in plain(content).splitlines()] if isinstance(content, str) else []


def _tasks(event: FinishedCall) -> list[DetailLine]:
    return [DetailLine(f"{_BOXES.get(item['status'], '[ ]')} {plain(item['content'])}") for item in _items(event)]


def current_task(event: FinishedCall) -> str:
    """The task that the agent is at, with its number, after a call that lists tasks; empty when there is none."""
    items = _items(event) if event.status == "ok" else []
    for number, item in enumerate(items, 1):
        if item["status"] == "in_progress":
            return f"{number}/{len(items)} {plain(item['content'])}"
    return ""


def _items(event: FinishedCall) -> list[Item]:
    found = items_in(event.result) or []
    return [item for item in found if "status" in item and "content" in item]


_DETAILS: dict[Detail, Callable[[FinishedCall], list[DetailLine]]] = {
    "output": _output,
    "diff": _diff,
    "content": _written,
    "tasks": _tasks,
}


def _document(event: FinishedCall) -> dict[str, Any]:
    """The result as a JSON object; empty when it is none."""
    if len(event.result) > _LONGEST_RESULT:
        return {}
    try:
        return msgspec.json.decode(event.result, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}
