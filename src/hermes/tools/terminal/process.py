"""The ``process`` tool: list, read, wait for, write to and kill background processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hermes.tools.arguments import bounded_int
from hermes.tools.declarations.origin import mentions_network
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result
from hermes.tools.terminal.background import BackgroundProcess

_PREVIEW_CHARS = 1_000
_LOG_LINES = 200
_MAX_LOG_LINES = 5_000

#: Time limit for a process to accept input.
_WRITE_SECONDS = 5.0


def run_process(args: Args, context: ToolContext) -> str:
    """Do ``action`` on the process ``session_id``; see the tool's schema."""
    action, principal = args.get("action"), context.scope.principal
    if action == "list":
        return tool_result(processes=[_entry(process) for process in context.processes.all(principal)])
    act = _ACTIONS.get(action) if isinstance(action, str) else None
    if act is None:
        return tool_error(f"action {action!r} is unknown; use one of list, {', '.join(_ACTIONS)}")
    process_id = args.get("session_id")
    process = context.processes.get(process_id, principal) if isinstance(process_id, str) else None
    if process is None:
        return tool_result(status="not_found", error=f"no process {process_id!r}; action list shows those there are")
    result = act(process, args, context)
    if process.undone and '"undone":' in result:
        context.command.undone, process.undone = process.undone, ()  # reported, and asked about, once
    return result


def _log(process: BackgroundProcess, args: Args, context: ToolContext) -> str:
    lines = process.output().splitlines()
    limit = bounded_int(args, "limit", _LOG_LINES, 1, _MAX_LOG_LINES)
    first = bounded_int(args, "offset", max(len(lines) - limit, 0), 0, len(lines))
    shown = lines[first : first + limit]
    return tool_result(
        session_id=process.id,
        status=_status(process),
        output="\n".join(shown),
        total_lines=len(lines),
        showing=f"lines {first + 1} to {first + len(shown)}" if shown else "no lines",
        **_exit(process),
    )


def _wait(process: BackgroundProcess, args: Args, context: ToolContext) -> str:
    limits = context.limits
    timeout = bounded_int(args, "timeout", limits.terminal_timeout, 0, limits.max_foreground_timeout)
    interrupt = context.scope.interrupt
    # A bare lock, because an interrupt may release it from a signal handler.
    gate = threading.Lock()
    gate.acquire()

    def wake() -> None:
        with suppress(RuntimeError):
            gate.release()

    forget = process.when_ended(wake)
    try:
        with interrupt.on_cancel(wake):
            ended = gate.acquire(timeout=timeout)
    finally:
        forget()
    interrupt.check()
    if not ended:
        note = f"still running after {timeout} s; wait again, or kill it"
        return tool_result(**_facts(process) | {"status": "timeout"}, output=_tail(process), timeout_note=note)
    return tool_result(**_facts(process), output=_tail(process, context.limits.max_output_chars))


def _kill(process: BackgroundProcess, args: Args, context: ToolContext) -> str:
    if process.exit_code is not None and (process.child.output_ended or not process.child.signal(0)):
        return tool_result(status="already_exited", session_id=process.id, **_exit(process))
    process.kill()
    return tool_result(status="killed", session_id=process.id, **_exit(process))


def _send(process: BackgroundProcess, text: str) -> str:
    if process.exit_code is not None:
        return tool_result(status="already_exited", error="the process has ended; it reads no input", **_exit(process))
    process.fetches = process.fetches or mentions_network(text)
    data = text.encode("utf-8", "replace")
    try:
        sent = process.child.write(data, _WRITE_SECONDS)
    except (OSError, ValueError):
        return tool_result(status="error", error="the process no longer reads its input")
    if sent < len(data):
        return tool_result(
            status="error", bytes_written=sent, error=f"the process took only {sent} of {len(data)} bytes of input"
        )
    return tool_result(status="ok", bytes_written=sent)


def _close(process: BackgroundProcess, args: Args, context: ToolContext) -> str:
    process.child.close_input()
    return tool_result(status="ok", message="input closed")


_ACTIONS: dict[str, Callable[[BackgroundProcess, Args, ToolContext], str]] = {
    "poll": lambda process, _args, _context: tool_result(**_summary(process)),
    "log": _log,
    "wait": _wait,
    "kill": _kill,
    "write": lambda process, args, _context: _send(process, str(args.get("data") or "")),
    "submit": lambda process, args, _context: _send(process, str(args.get("data") or "") + "\n"),
    "close": _close,
}


def _facts(process: BackgroundProcess) -> dict[str, Any]:
    refused = process.refused()
    return {
        "session_id": process.id,
        "command": process.command,
        "status": _status(process),
        "pid": process.pid,
        "uptime_seconds": round(process.uptime, 1),
        **_exit(process),
        **({"sandbox": refused} if refused else {}),
    }


def _summary(process: BackgroundProcess) -> dict[str, Any]:
    return {**_facts(process), "output_preview": _tail(process)}


def _entry(process: BackgroundProcess) -> dict[str, Any]:
    started = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(process.started_at))
    return {**_summary(process), "cwd": process.cwd, "started_at": started}


def _status(process: BackgroundProcess) -> str:
    return "running" if process.exit_code is None else "exited"


def _exit(process: BackgroundProcess) -> dict[str, Any]:
    code = process.exit_code
    if code is None:
        return {}
    ended: dict[str, Any] = {"exit_code": code, "completion_reason": "killed" if process.killed else "exited"}
    return {**ended, "undone": [change.report for change in process.undone]} if process.undone else ended


def _tail(process: BackgroundProcess, characters: int = _PREVIEW_CHARS) -> str:
    return process.output()[-characters:].strip()
