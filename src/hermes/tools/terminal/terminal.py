"""The ``terminal`` tool: run a shell command and return its output, or start it in the background."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes.base.scope import Interrupt
from hermes.tools.files.paths import resolve_path, why
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result
from hermes.tools.sandbox.confinement import Confinement
from hermes.tools.terminal.child_process import ChildProcess, can_hold, start_command
from hermes.tools.terminal.environment import withheld_hint
from hermes.tools.terminal.output import BoundedOutput, shorten, strip_escapes
from hermes.tools.terminal.prepared_shell import can_prepare

if TYPE_CHECKING:
    from hermes.tools.sandbox.network import AskConnect

#: The exit code ``timeout(1)`` uses.
_TIMED_OUT = 124
#: Of a command that was killed.
_KILLED = 137

#: An interrupt normally wakes the reader by killing the command; otherwise it is noticed after this time.
_LOOK_EVERY = 0.25

#: After the shell has exited, an orphaned child may hold its output open: wait this long for more, ...
_QUIET = 0.05
#: ... and in total not longer than this.
_DRAIN = 0.25

#: In longer commands the exit code of the last program is not explained.
_LONGEST_EXPLAINED = 10_000

#: What exit code 1 of programs means that answer a question with it instead of reporting a failure.
_MEANINGS = {
    **dict.fromkeys(("grep", "egrep", "fgrep", "rg"), "no lines matched (not an error)"),
    **dict.fromkeys(("diff", "cmp"), "the files differ (not an error)"),
    **dict.fromkeys(("test", "["), "the condition is false (not an error)"),
}


def run_terminal(args: Args, context: ToolContext) -> str:
    """Run ``command`` as ``args`` ask; see the tool's schema."""
    command = args.get("command")
    try:
        if not isinstance(command, str) or not command.strip():
            raise ValueError("command is empty; send the shell command to run")
        if "\0" in command:
            raise ValueError("command contains a NUL byte, which no shell can take")
        # It is a finding of its own, so the call was approved with it.
        outside = bool(args.get("outside_sandbox")) and context.confinements.can_leave(context.scope)
        confinement = context.confinements.of_command(
            context.scope,
            context.cwd,
            outside=outside,
            only_reads=context.command.only_reads,
            writable=context.command.plugins_folder,
            ask=_connections(context, asks=not args.get("background")),
        )
        cwd = _working_directory(args.get("workdir"), context, confinement)
        if args.get("background"):
            return _start_in_background(command, cwd, bool(args.get("pty")), context, confinement)
        timeout = _timeout(args, context)
    except ValueError as error:
        return _failed(str(error))
    longest = max(context.limits.max_foreground_timeout, context.limits.terminal_timeout)
    if timeout > longest:
        return tool_error(
            f"timeout {timeout:g} s is more than the {longest} s a foreground command "
            f"may take; start it with background=true and wait for it with the process tool"
        )
    interrupt, pty, supervisor = context.scope.interrupt, bool(args.get("pty")), context.processes.supervisor
    claim = context.command.claim
    is_prepared = confinement.sandbox is not None and not pty and can_prepare(command, confinement)
    shells = context.processes.shells if is_prepared else None
    if claim is not None and shells is None and not can_hold(command, confinement, pty=pty):
        claim()
        claim = None
    try:
        with interrupt.starting():
            if shells is not None:
                child = shells.start(command, cwd, confinement, claim)
            else:
                child = start_command(command, cwd, confinement, pty=pty, supervisor=supervisor, held_for=claim)
            forget = interrupt.add_callback(lambda: _make_stop(child, by_force=interrupt.insisted))
    except (OSError, ValueError) as error:
        return _failed(f"the command could not be started: {_cause(error)}")
    return _run_in_foreground(child, forget, command, cwd, timeout, context, confinement)


def _run_in_foreground(
    child: ChildProcess,
    forget: Callable[[], None],
    command: str,
    cwd: str,
    timeout: float,
    context: ToolContext,
    confinement: Confinement,
) -> str:
    output = BoundedOutput(context.limits.max_output_chars)
    interrupt = context.scope.interrupt
    try:
        child.release()
        finished = _collect(child, output, time.monotonic() + timeout, interrupt, confinement)
        if not finished or interrupt.cancelled:
            child.stop()
        _drain(child, output)
    finally:
        if child.exit_code() is None:
            child.stop(grace=0)
        forget()  # only at the end: a second Ctrl-C may come while it is being stopped
        child.close()
        undone = context.command.undone = confinement.ended()
    interrupt.check()
    output.end()
    code = (child.exit_code() or 0) if finished else _TIMED_OUT
    text = _presentable(output.text(), command, code, context)
    extra: dict[str, Any] = {"undone": [change.report for change in undone]} if undone else {}
    if context.processes.is_closed and code == _KILLED:
        # By this program, which ends before the turn has. The turn continues later, and must not take it for a failure
        # of the command: what it did until then is not known.
        output_so_far = {"output": text} if text else {}
        return tool_error("The call was cancelled (Hermes was stopped)", outcome="unknown", **output_so_far)
    if not finished:
        text = f"{text}\n[Command timed out after {timeout:g} s and was stopped]".lstrip()
        return tool_result(output=text, exit_code=code, error=None, **extra)
    explanations = {
        "exit_code_meaning": _meaning(command, code),
        "hint": withheld_hint(confinement.withheld, command, text, code),
        "sandbox": _sandbox_note(confinement, text, code, context, command, cwd),
    }
    extra |= {name: explanation for name, explanation in explanations.items() if explanation}
    return tool_result(output=text, exit_code=code, error=None, **extra)


def _sandbox_note(
    confinement: Confinement, output: str, code: int, context: ToolContext, command: str, cwd: str
) -> str:
    note = confinement.note(output, failed=code != 0, command=command, cwd=cwd)
    if note and context.confinements.can_leave(context.scope):
        note += ". If it has to run outside, repeat it with outside_sandbox=true: the user is asked"
    return note


def _connections(context: ToolContext, *, asks: bool) -> AskConnect | None:
    """Decides about hosts that the command does not reach. A background process outlives whom it could ask."""
    may_connect = context.command.may_connect
    if may_connect is None or asks:
        return may_connect
    return lambda host, port, _ended: may_connect(host, port, None)


def _collect(
    child: ChildProcess, output: BoundedOutput, deadline: float, interrupt: Interrupt, confinement: Confinement
) -> bool:
    """Read until the shell exits: True. False at the deadline or on an interrupt."""
    while child.exit_code() is None:
        remaining = deadline + confinement.waited() - time.monotonic()
        if remaining <= 0 or interrupt.cancelled:
            return False
        data = child.read(min(remaining, _LOOK_EVERY))
        if data:
            output.feed(data)
        elif data is not None:
            child.wait(min(remaining, _LOOK_EVERY))
    return True


def _drain(child: ChildProcess, output: BoundedOutput) -> None:
    deadline = time.monotonic() + _DRAIN
    while time.monotonic() < deadline:
        data = child.read(_QUIET)
        if not data:
            return
        output.feed(data)


def _make_stop(child: ChildProcess, *, by_force: bool) -> None:
    # Called at any instant, perhaps from a signal handler: one system call, no waiting. `stop` does the rest.
    from signal import SIGKILL, SIGTERM

    child.signal(SIGKILL if by_force else SIGTERM)


def _presentable(text: str, command: str, code: int, context: ToolContext) -> str:
    """Output as the model sees it.

    The ``transform_terminal_output`` hook sees the bounded text with its escape sequences, before trimming; what it
    returns is bounded again.
    """
    if context.command.transform is not None:
        text = shorten(context.command.transform(command, text, code), context.limits.max_output_chars)
    return strip_escapes(text).strip()


def _start_in_background(command: str, cwd: str, pty: bool, context: ToolContext, confinement: Confinement) -> str:
    if context.command.claim is not None:
        context.command.claim()
    try:
        process = context.processes.start(command, cwd, confinement, pty=pty, principal=context.scope.principal)
    except (OSError, ValueError) as error:
        return _failed(f"the command could not be started: {_cause(error)}")
    return tool_result(
        output="Background process started",
        session_id=process.id,
        pid=process.pid,
        exit_code=0,
        error=None,
    )


def _working_directory(workdir: object, context: ToolContext, confinement: Confinement) -> str:
    cwd = resolve_path(workdir, context.cwd) if workdir else str(context.cwd)
    refused = context.guard.outside(cwd)
    if refused:
        raise ValueError(refused)
    if not os.path.isdir(confinement.outer_path(cwd)):
        where = " in the sandbox, whose /tmp is its own; use the workspace" if os.path.isdir(cwd) else ""
        raise ValueError(f"the working directory {cwd} does not exist{where or ' or is not a directory'}")
    return cwd


def _timeout(args: Args, context: ToolContext) -> float:
    timeout = args.get("timeout")
    if timeout is None:
        return context.limits.terminal_timeout
    if not isinstance(timeout, (int, float)) or not timeout > 0:
        raise ValueError(f"timeout must be a number of seconds above 0, found {timeout!r}")
    return timeout


def _failed(message: str) -> str:
    return tool_result(output="", exit_code=-1, error=message)


def _cause(error: Exception) -> str:
    return why(error) if isinstance(error, OSError) else str(error)


def _meaning(command: str, code: int) -> str | None:
    """The meaning of this exit code for a well-known program, when it ran last."""
    if code != 1 or len(command) > _LONGEST_EXPLAINED:
        return None
    import shlex

    lexer = shlex.shlex(command.replace("\n", ";"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    program = ""
    try:
        for token in lexer:
            if token and set(token) <= set("();|&"):
                program = ""
            elif not program and "=" not in token:
                program = token
    except ValueError:  # an unbalanced quote
        return None
    return _MEANINGS.get(os.path.basename(program))
