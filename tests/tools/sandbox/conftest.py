"""Folders for sandboxes, and both backends."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes.tools.sandbox.backend import SandboxBackend
from support.sandbox_rig import SandboxRig, real_backend


@pytest.fixture
def folder() -> Generator[Path]:
    """Not below /tmp, which bubblewrap replaces."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="hermes-sandbox-") as name:
        yield Path(name).resolve()


@pytest.fixture
def bubblewrap() -> SandboxBackend:
    return real_backend("bubblewrap")


@pytest.fixture(params=["bubblewrap", "landlock"])
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    return real_backend(request.param)


@pytest.fixture
def make_rig(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[..., SandboxRig]]:
    """Makes rigs: ``make_rig(backend, principal="bob", network="off")``."""
    with ExitStack() as stack:

        def make(backend: SandboxBackend | None, **options: Any) -> SandboxRig:
            return stack.enter_context(SandboxRig(folder, monkeypatch, backend, **options))

        yield make
