"""Tests made from runs as items of pytest."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from hermes.record.checks.cases import run_case


class CaseCollector(pytest.File):
    """A test file, which is one item."""

    def collect(self) -> Iterable[pytest.Item]:
        """The test."""
        yield CaseItem.from_parent(self, name=self.path.stem)  # pyright: ignore[reportUnknownMemberType]


class CaseItem(pytest.Item):
    """One run that is run again."""

    def runtest(self) -> None:
        """Replay it in a home of its own."""
        with tempfile.TemporaryDirectory(prefix="hermes-test-") as home:
            result = run_case(self.path, Path(home))
        if not result.passed:
            pytest.fail("\n".join(result.problems), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it is."""
        return self.path, None, f"hermes test {self.name}"
