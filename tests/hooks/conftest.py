"""Real hook tables that leave no thread behind."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from hermes.hooks.table import Hooks


@pytest.fixture
def hooks() -> Generator[Hooks]:
    table = Hooks()
    yield table
    table.close()
