"""A tool context in a directory of its own, and a short way to call a built-in tool."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config.schema.sections import TerminalConfig
from hermes.base.scope import Scope
from hermes.tools.builtin import builtin_tools
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import ToolContext
from hermes.tools.sandbox.confinement import Confinements
from hermes.tools.terminal.background import ProcessTable
from support.waiting import StoppedClock, wait_until_gone


@pytest.fixture
def context(workdir: Path, home: Path) -> Generator[ToolContext]:
    """Without a sandbox, in which processes have other numbers: its own tests are in ``sandbox``."""
    processes, confinements = ProcessTable(), Confinements(TerminalConfig(sandbox="off"))
    yield ToolContext(Scope(), workdir, processes, FileGuard(home), confinements=confinements)
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
    """``gone(pid)`` waits until a process has ended. A zombie that its parent has yet to collect has ended, too."""

    def wait(pid: int) -> bool:
        wait_until_gone(pid)
        return True

    return wait


@pytest.fixture
def time_out_when(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], bool]], None]:
    """``time_out_when(condition)``: no time passes for the terminal tool until the condition holds, then an hour."""

    def stop_clock(condition: Callable[[], bool]) -> None:
        monkeypatch.setattr("hermes.tools.terminal.terminal.time", StoppedClock(condition, runs_on=True))

    return stop_clock
