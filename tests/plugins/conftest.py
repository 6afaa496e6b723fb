"""A rig to load plugins into, with nothing bundled but what a test puts there."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from support.plugin_rig import Rig


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Rig]:
    made = Rig(tmp_path)
    made.cwd.mkdir()
    monkeypatch.setenv("HERMES_BUNDLED_PLUGINS", str(made.bundled))
    yield made
    made.hooks.close()
