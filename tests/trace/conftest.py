"""Runs of every kind for the tests of traces."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.trace_runs import SCENARIOS, Rig, Run, Scenario, delegated_children


@pytest.fixture
def rig(home: Path, workdir: Path) -> Generator[Rig]:
    with ExitStack() as stack:
        yield Rig(home, workdir, stack)


@pytest.fixture(scope="session", params=SCENARIOS, ids=lambda scenario: scenario.__name__)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One run of each kind, made once and looked at by many tests."""
    scenario: Scenario = request.param
    return _made(scenario, tmp_path_factory.mktemp(scenario.__name__))


@pytest.fixture(scope="session")
def family_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with children."""
    return _made(delegated_children, tmp_path_factory.mktemp("family"))


def _made(scenario: Scenario, folder: Path) -> Run:
    workdir = folder / "work"
    workdir.mkdir()
    with ExitStack() as stack:
        return scenario(Rig(folder / "home", workdir, stack))
