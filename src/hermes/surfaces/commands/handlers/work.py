"""Commands that show work: child agents, background processes, the task list."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

from hermes.agent.tools.todo import items_in
from hermes.base.errors import HermesError
from hermes.journal.bodies import message_text
from hermes.journal.history.passages import last_result
from hermes.journal.sessions import SessionRow
from hermes.surfaces.commands.conversation import Conversation
from hermes.surfaces.commands.text import columns, dollars, duration, plural, shortened
from hermes.tools.terminal.background import BackgroundProcess

T = TypeVar("T")

#: Children and processes that are listed, the newest last.
_LISTED = 20
#: Lines of a result or of an output that are shown.
_RESULT_LINES = 6
_OUTPUT_LINES = 40
_BOXES = {"completed": "[x]", "in_progress": "[>]", "cancelled": "[-]"}


# -- child agents ----------------------------------------------------------------------------------------------------


def children(conversation: Conversation, arguments: str) -> str:
    """List the child agents of the session, or show what one of them did and does."""
    rows = conversation.host.sessions.children(conversation.session.id)
    if not rows:
        return "This session has no child agents."
    if arguments:
        return _one_child(conversation, rows, arguments)
    first = max(len(rows) - _LISTED, 0)
    lines = columns(
        [
            (f"{number}", row.state, plural(_calls(conversation, row), "call"), _spent(row), shortened(_goal(row), 60))
            for number, row in enumerate(rows[first:], first + 1)
        ],
        width=conversation.width,
    )
    return "\n".join([*lines, "", "Look into one: /children NUMBER"])


def _one_child(conversation: Conversation, rows: list[SessionRow], arguments: str) -> str:
    row = _numbered(rows, arguments, "/children")
    lines = [f"Child {rows.index(row) + 1}, {row.state}, session {row.id}: {_goal(row)}"]
    for message in conversation.host.sessions.messages(row.id):
        lines += _message_lines(message)
    return "\n".join(lines)


def _message_lines(message: dict[str, Any]) -> list[str]:
    text = message_text(message).strip()
    if message["role"] == "tool":
        return _cut([f"    {line}" for line in text.splitlines()], _RESULT_LINES)
    if message["role"] != "assistant":
        return []  # the task, which is the first line
    calls = message.get("tool_calls") or ()
    called = [f"  > {call['function']['name']} {shortened(call['function']['arguments'], 100)}" for call in calls]
    return [*([text] if text else []), *called]


def _calls(conversation: Conversation, row: SessionRow) -> int:
    messages = conversation.host.sessions.messages(row.id)
    return sum(len(message.get("tool_calls") or ()) for message in messages)


def _goal(row: SessionRow) -> str:
    return row.title or "(no title)"


def _spent(row: SessionRow) -> str:
    return f"{row.input_tokens + row.output_tokens:,} tokens {dollars(row.cost_usd)}".rstrip()


# -- background processes --------------------------------------------------------------------------------------------


def ps(conversation: Conversation, arguments: str) -> str:
    """List the background processes, show the output of one, or stop one."""
    processes = conversation.host.runtime.processes.all("")
    if not processes:
        return "No background processes."
    words = arguments.split()
    if words:
        process = _numbered(processes, words[-1], "/ps")
        if words[0] in ("stop", "kill") and len(words) == 2:
            process.kill()
            return f"Stopped: {shortened(process.command, 60)}"
        if len(words) == 1:
            return _output(process)
        raise HermesError("/ps takes a number, or stop and a number: /ps stop 1")
    first = max(len(processes) - _LISTED, 0)
    rows = [
        (f"{number}", _state(process), duration(process.uptime), shortened(process.command, 80))
        for number, process in enumerate(processes[first:], first + 1)
    ]
    lines = columns(rows, width=conversation.width)
    return "\n".join([*lines, "", "Output: /ps NUMBER. End one: /ps stop NUMBER"])


def _state(process: BackgroundProcess) -> str:
    if process.exit_code is None:
        return "running"
    return "stopped" if process.killed else f"exit {process.exit_code}"


def _output(process: BackgroundProcess) -> str:
    started = time.strftime("%H:%M:%S", time.localtime(process.started_at))
    head = f"{process.command}\n({_state(process)}, pid {process.pid}, since {started}, in {process.cwd})"
    lines = process.output().rstrip().splitlines()
    shown = lines[-_OUTPUT_LINES:]
    earlier = [f"… {plural(len(lines) - len(shown), 'earlier line')}"] if len(shown) < len(lines) else []
    return "\n".join([head, *earlier, *(shown or ["(no output)"])])


# -- the task list ---------------------------------------------------------------------------------------------------


def todo(conversation: Conversation, arguments: str) -> str:
    """Show the task list of the agent."""
    items = items_in(last_result(conversation.host.store, conversation.session.id, "todo"))
    if not items:
        return "The agent has no task list."
    done = sum(item["status"] == "completed" for item in items)
    lines = [f"  {_BOXES.get(item['status'], '[ ]')} {item['content']}" for item in items]
    return "\n".join([f"{done} of {plural(len(items), 'task')} done", *lines])


def _numbered(listed: Sequence[T], word: str, command: str) -> T:
    number = int(word) if word.isdecimal() and len(word) < 6 else 0
    if not 1 <= number <= len(listed):
        raise HermesError(f"{command} takes a number from 1 to {len(listed)}, not {word!r}")
    return listed[number - 1]


def _cut(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[:most], f"    … {plural(len(lines) - most, 'more line')}"]
