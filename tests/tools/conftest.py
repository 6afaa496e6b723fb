"""A tool context in a directory of its own, and a short way to call a built-in tool."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.scope import Scope
from hermes.tools.builtin import builtin_tools
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import ToolContext
from hermes.tools.terminal.background import ProcessTable


@pytest.fixture
def context(workdir: Path, home: Path) -> Generator[ToolContext]:
    processes = ProcessTable()
    yield ToolContext(Scope(), workdir, processes, FileGuard(home))
    processes.close()


@pytest.fixture
def call(context: ToolContext) -> Callable[..., dict[str, Any]]:
    """``call("read_file", path="x")`` runs the tool and decodes its result."""
    tools = {tool.name: tool for tool in builtin_tools()}

    def run(name: str, **args: Any) -> dict[str, Any]:
        return msgspec.json.decode(tools[name].run(args, context))

    return run


@pytest.fixture
def unprivileged() -> AbstractContextManager[None]:
    """File permissions mean nothing to root, so be somebody else inside this block."""

    @contextmanager
    def nobody() -> Generator[None]:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    return nobody() if os.geteuid() == 0 else nullcontext()


@pytest.fixture
def gone() -> Callable[[int], bool]:
    """``gone(pid)`` waits until a process has ended, at most five seconds. A zombie nobody reaps has ended, too."""

    def wait(pid: int) -> bool:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if not _lives(pid):
                return True
            time.sleep(0.01)
        return False

    return wait


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return not state.stdout.strip().startswith("Z") and bool(state.stdout.strip())
