"""A tool context in a directory of its own, and a short way to call a built-in tool."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.scope import Scope
from hermes.tools.builtin import builtin_tools
from hermes.tools.guard import FileGuard
from hermes.tools.processes import ProcessTable
from hermes.tools.registry import ToolContext


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
