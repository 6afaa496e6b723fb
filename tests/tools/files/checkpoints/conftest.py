"""Checkpoints that are always closed, also those of a process that a test lets crash."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from hermes.tools.files.checkpoints.recorder import Checkpoints


@pytest.fixture(autouse=True)
def closed_checkpoints(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Close what a test opens."""
    made: list[Checkpoints] = []
    original = Checkpoints.__init__

    def noted(self: Checkpoints, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(Checkpoints, "__init__", noted)
    yield
    for checkpoints in made:
        checkpoints.close()
