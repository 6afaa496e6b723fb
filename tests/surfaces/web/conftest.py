"""Runs for the tests of the page."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.trace_runs import Rig


@pytest.fixture
def rig(home: Path, workdir: Path) -> Generator[Rig]:
    with ExitStack() as stack:
        yield Rig(home, workdir, stack)
