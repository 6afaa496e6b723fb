"""Parsers of what strangers wrote: each is a program that runs in a process with bounded memory and time.

The process holds no secret: it gets the document on its standard input and an environment of two variables.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.base.scope import Interrupt
    from hermes.tools.terminal.child_process import ChildProcess
    from hermes.tools.terminal.supervisor import ProcessSupervisor

_MEMORY_BYTES = 2 * 1024**3
_CPU_SECONDS = 30
_SECONDS = 60.0
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
#: The limits are set before anything of the program is read.
LIMITED = f"""\
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY_BYTES}, {_MEMORY_BYTES}))
resource.setrlimit(resource.RLIMIT_CPU, ({_CPU_SECONDS}, {_CPU_SECONDS}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run_parser(
    program: Path,
    arguments: Sequence[str],
    data: bytes,
    interrupt: Interrupt,
    supervisor: ProcessSupervisor | None = None,
) -> bytes:
    """What the Python ``program`` prints about ``data``, as far as it got within its limits.

    It must not import Hermes. Raises ``OSError`` when the process cannot be started, and ``Interrupted``.
    """
    from hermes.tools.terminal.child_process import ChildProcess

    with interrupt.starting():
        child = ChildProcess(
            [sys.executable, "-I", "-c", LIMITED, str(program), *arguments],
            cwd="/",
            env=_ENVIRONMENT,
            stdin="pipe",
            keep_stderr=False,
            supervisor=supervisor,
        )
        forget = interrupt.add_callback(lambda: _kill(child))
    deadline = time.monotonic() + _SECONDS
    answer = bytearray()
    try:
        try:
            child.write(data, _SECONDS)
        except OSError:
            pass  # it ended before it had read everything; what it says is below
        child.close_input()
        while (left := deadline - time.monotonic()) > 0 and (piece := child.read(left)) != b"":
            answer += piece or b""
            interrupt.check()
    finally:
        if child.exit_code() is None:
            child.stop(grace=0)
        forget()
        child.close()
    interrupt.check()
    return bytes(answer)


def _kill(child: ChildProcess) -> None:
    child.signal(SIGKILL)
