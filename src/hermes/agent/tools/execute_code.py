"""The ``execute_code`` tool: a Python script in the sandbox whose tool calls go through the pipeline of all calls."""

from __future__ import annotations

import marshal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from hermes.base.errors import TurnSuspended, did_you_mean
from hermes.base.scope import Interrupt
from hermes.tools.code import __file__ as _package
from hermes.tools.declarations.builtin import kept_from
from hermes.tools.registry import Args, Tool, ToolContext
from hermes.tools.results import tool_error, tool_result
from hermes.tools.terminal.child_process import ChildProcess
from hermes.tools.terminal.output import BoundedOutput, strip_escapes

if TYPE_CHECKING:
    from hermes.agent.runtime import OpenSession, Runtime

#: Tools that a script cannot call: they are the model's own, ask the user, or would run another script.
KEPT_FROM_SCRIPTS = kept_from("script")

_LOOK_EVERY = 0.25
_MAX_REQUEST_BYTES = 16_000_000

Status = Literal["success", "error", "timeout", "interrupted"]


class _ToolRequest(msgspec.Struct):
    name: str
    args: dict[str, Any] = {}


_tool_request = msgspec.json.Decoder(_ToolRequest)


def run_execute_code(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Run a script to its end, or to a limit."""
    code = str(args["code"])
    try:
        compile(code, "script.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        return tool_error(f"the script does not compile: {error}")
    started = time.perf_counter()
    run = ScriptRun(code, context, runtime)
    try:
        status = run.run()
    except (OSError, ValueError) as error:
        return tool_error(f"the script could not be started: {error}")
    context.scope.interrupt.check()
    fields: dict[str, Any] = {
        "status": status,
        "output": strip_escapes(run.output.text()).strip(),
        "exit_code": run.exit_code,
        "tool_calls_made": run.calls,
        "duration_seconds": round(time.perf_counter() - started, 2),
    }
    if status == "timeout":
        seconds = runtime.config.code_execution.timeout
        fields |= {"error": f"the script took longer than {seconds:g} s and was stopped", "error_type": "tool_timeout"}
    return tool_result(**fields)


@dataclass(slots=True)
class ScriptRun:
    """One run of a script: its process, its tool calls and its output."""

    code: str
    context: ToolContext
    runtime: Runtime
    output: BoundedOutput = field(init=False)
    calls: int = 0
    exit_code: int = -1
    _buffer: bytearray = field(default_factory=bytearray)
    #: Seconds that tools took. Refused and unreadable requests are time of the script.
    _in_calls: float = 0.0

    def __post_init__(self) -> None:
        self.output = BoundedOutput(self.context.limits.max_output_chars)

    def run(self) -> Status:
        """Start the script, answer its calls, and wait for its end."""
        tools = self._tools()
        ours, theirs = socket.socketpair()
        interrupt = self.context.scope.interrupt
        confinement = self.context.confinements.of_script(self.context.scope, self.context.cwd)
        # A script that does not read its answers must not hold the turn up.
        ours.settimeout(self.runtime.config.code_execution.timeout)
        with ours:
            try:
                with interrupt.starting():
                    child = confinement.start(
                        [sys.executable, "-I", str(Path(_package).with_name("script_child.py")), str(theirs.fileno())],
                        str(self.context.cwd),
                        lambda line, folder, env: ChildProcess(
                            line,
                            cwd=folder,
                            env=env,
                            pass_fds=(theirs.fileno(),),
                            supervisor=self.context.processes.supervisor,
                        ),
                    )
                    forget = interrupt.add_callback(lambda: _kill(child))
            finally:
                theirs.close()
            try:
                names = {tool.name: list(tool.parameters.get("properties", ())) for tool in tools.values()}
                first = marshal.dumps({"code": self.code, "tools": names})
                ours.sendall(b"%d\n%s" % (len(first), first))
                return self._serve(child, ours, tools, interrupt)
            except (BrokenPipeError, ConnectionResetError):
                return self._ended(child)
            except TimeoutError:
                return "timeout"
            finally:
                if child.exit_code() is None:
                    child.stop(grace=0)
                forget()
                child.close()
                confinement.ended()
                self.output.end()

    def _tools(self) -> dict[str, Tool]:
        """The tools of the session that a script may call."""
        session: OpenSession | None = self.runtime.open_sessions.get(self.context.scope.session_id)
        offered: Sequence[Tool] = () if session is None else session.offered
        return {tool.name: tool for tool in offered if tool.name not in KEPT_FROM_SCRIPTS and tool.name.isidentifier()}

    def _serve(
        self, child: ChildProcess, connection: socket.socket, tools: dict[str, Tool], interrupt: Interrupt
    ) -> Status:
        import select

        deadline = time.monotonic() + self.runtime.config.code_execution.timeout
        poller = select.poll()
        poller.register(connection, select.POLLIN)
        poller.register(child.output_descriptor, select.POLLIN)
        while child.exit_code() is None:
            left = deadline - time.monotonic()
            if interrupt.cancelled:
                return "interrupted"
            if left <= 0:
                return "timeout"
            for descriptor, _ in poller.poll(min(left, _LOOK_EVERY) * 1000):
                if descriptor == connection.fileno():
                    before = self._in_calls
                    if not self._answer(connection, tools):
                        poller.unregister(connection)
                    deadline += self._in_calls - before  # a call has limits of its own
                elif data := child.read(0):
                    self.output.feed(data)
                elif child.output_ended:
                    poller.unregister(child.output_descriptor)
                    child.wait(min(left, _LOOK_EVERY))  # usually it ends now
        return self._ended(child)

    def _ended(self, child: ChildProcess) -> Status:
        while data := child.read(0.05):
            self.output.feed(data)
        code = child.wait(1.0)
        self.exit_code = -1 if code is None else code
        return "success" if code == 0 else "error"

    def _answer(self, connection: socket.socket, tools: dict[str, Tool]) -> bool:
        """Read what arrived, and answer the requests that are whole. False at the end of the connection."""
        data = connection.recv(1_048_576)
        self._buffer += data
        if len(self._buffer) > _MAX_REQUEST_BYTES:
            raise ValueError(f"a call of the script has more than {_MAX_REQUEST_BYTES:,} bytes")
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            connection.sendall(msgspec.json.encode(self._result(line, tools)) + b"\n")
        return bool(data)

    def _result(self, line: bytes, tools: dict[str, Tool]) -> dict[str, str]:
        try:
            request = _tool_request.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return {"refused": f"not a call of a tool: {error}"}
        limit = self.runtime.config.code_execution.max_tool_calls
        if self.calls >= limit:
            return {"refused": f"a script may call {limit} tools (code_execution.max_tool_calls)"}
        if request.name not in tools:
            return {"refused": f"there is no tool {request.name!r} here{did_you_mean(request.name, sorted(tools))}"}
        self.calls += 1
        began = time.monotonic()
        try:
            return {"result": self._dispatch(request)}
        finally:
            self._in_calls += time.monotonic() - began

    def _dispatch(self, request: _ToolRequest) -> str:
        """Run a call of the script like one of the model: gates, hooks, the journal."""
        from hermes.agent.services import dispatch_call

        scope = self.context.scope
        session: OpenSession | None = self.runtime.open_sessions.get(scope.session_id)
        journal = None if session is None else session.journal
        work = (self.runtime, scope, self.context.cwd, request.name, request.args, journal)
        try:
            return dispatch_call(*work, when_untrusted=self._note_untrusted)
        except TurnSuspended:
            return tool_error("it needs an approval, which cannot be given while a script runs; it was not run")

    def _note_untrusted(self) -> None:
        self.context.saw_untrusted = True


def _kill(child: ChildProcess) -> None:
    child.signal(SIGKILL)
