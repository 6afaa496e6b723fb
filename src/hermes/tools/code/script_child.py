"""The child process of ``execute_code``: runs a script whose ``hermes_tools`` calls go to Hermes over a socket.

A program of its own: it imports nothing of Hermes. The first line on the socket has the script and the tools.
"""

from __future__ import annotations

# A script that calls no tool must start as quickly as Python itself, so everything else is imported when it is needed.
import marshal
import os
import sys
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

_CHUNK = 65_536


class ToolCallError(Exception):
    """A tool could not be called: unknown, not offered, or the limit of calls is reached."""


class _Connection:
    """Requests and answers, one line of JSON each. Threads of the script take turns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._lock = allocate_lock()

    def receive(self, size: int = 0) -> bytes:
        """The next ``size`` bytes, or without a size the next line."""
        while (end := size if size else self._buffer.find(b"\n") + 1) == 0 or len(self._buffer) < end:
            data = os.read(self._descriptor, _CHUNK)
            if not data:
                raise SystemExit("the connection to Hermes was closed")
            self._buffer += data
        found = bytes(self._buffer[:end])
        del self._buffer[:end]
        return found

    def call(self, name: str, args: dict[str, Any]) -> Any:
        import json

        line = memoryview(json.dumps({"name": name, "args": args}).encode() + b"\n")
        with self._lock:
            while line:
                line = line[os.write(self._descriptor, line) :]
            answer = json.loads(self.receive())
        if "refused" in answer:
            raise ToolCallError(answer["refused"])
        try:
            return json.loads(answer["result"])
        except ValueError:
            return answer["result"]


def _tools_module(connection: _Connection, tools: dict[str, list[str]]) -> ModuleType:
    module: ModuleType = type(sys)("hermes_tools", "The tools of Hermes as functions. Each returns its result as data.")
    for name, parameters in tools.items():
        setattr(module, name, _function(connection, name, parameters))
    module.ToolCallError = ToolCallError  # pyright: ignore[reportAttributeAccessIssue]
    module.__all__ = sorted(tools)  # pyright: ignore[reportAttributeAccessIssue]

    def missing(name: str) -> Any:
        raise AttributeError(f"there is no tool {name!r} here; there are: {', '.join(sorted(tools))}")

    module.__getattr__ = missing  # pyright: ignore[reportAttributeAccessIssue]
    return module


def _function(connection: _Connection, name: str, parameters: list[str]) -> Callable[..., Any]:
    def call(*values: Any, **args: Any) -> Any:
        if len(values) > len(parameters):
            raise TypeError(f"{name}() takes at most {len(parameters)} arguments: {', '.join(parameters)}")
        given = dict(zip(parameters, values, strict=False))
        for key in given.keys() & args.keys():
            raise TypeError(f"{name}() got {key!r} twice")
        return connection.call(name, {**given, **args})

    call.__name__ = call.__qualname__ = name
    return call


def main() -> None:
    """Run the script that the first line brings."""
    connection = _Connection(int(sys.argv[1]))
    # From Hermes itself, which runs the same Python: its length in a line, then the data.
    first: dict[str, Any] = marshal.loads(connection.receive(int(connection.receive())))
    sys.modules["hermes_tools"] = _tools_module(connection, first["tools"])
    sys.argv = ["script.py"]
    # The modules of the working folder come before installed ones, but cannot pose as those of Python itself.
    installed = [number for number, place in enumerate(sys.path) if place.endswith("-packages")]
    sys.path.insert(installed[0] if installed else len(sys.path), "")
    code = first["code"]
    names = {"__name__": "__main__", "__file__": "script.py", "__builtins__": __builtins__}
    try:
        exec(compile(code, "script.py", "exec"), names)
    except Exception as error:
        import linecache
        import traceback

        # The lines that failed are shown.
        linecache.cache["script.py"] = (len(code), None, code.splitlines(keepends=True), "script.py")
        trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
        traceback.print_exception(type(error), error, trace)
        sys.exit(1)


if __name__ == "__main__":
    main()
