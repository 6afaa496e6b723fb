"""A host that exports to a folder of the test's own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes.host import Host
from hermes.testing import ScriptedProvider
from support.relay_rig import HostMaker, relay_env, relay_host


@pytest.fixture
def relay_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where both kinds of files go, as the environment has it."""
    for name, value in relay_env(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.fixture
def exporting_host(home: Path, workdir: Path, relay_folder: Path) -> Generator[HostMaker]:
    """Makes hosts with the plugin from a script. They are closed with the test, if not before."""
    with ExitStack() as stack:

        def make(script: Any, **sections: Any) -> Host:
            provider = stack.enter_context(ScriptedProvider(script))
            return stack.enter_context(relay_host(home, workdir, provider, **sections))

        yield make
