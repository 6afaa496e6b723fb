"""A served agent that all tests of one module share."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from hermes.testing import ScriptedProvider, by_step, text, tool_call
from support.a2a_rig import Served, served
from support.approval_rig import RISKY

HELLO = text("Hello there.", chunks=4)
ASKS = by_step(tool_call("terminal", {"command": RISKY}), text("done"))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Generator[Served]:
    """Says hello to everything; to "ask" it wants to do what needs an approval."""
    folder = tmp_path_factory.mktemp("a2a")
    workdir = folder / "work"
    workdir.mkdir()

    def script(request: Any) -> Any:
        return ASKS(request) if request.last_user_text == "ask" else HELLO

    with ScriptedProvider(script) as provider, served(folder / "home", workdir, provider) as running:
        yield running
