"""Fixtures of the gateway's tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from support.gateway_rig import GatewayRig, SwitchedProvider


@pytest.fixture
def provider() -> Generator[SwitchedProvider]:
    with SwitchedProvider() as provider:
        yield provider


@pytest.fixture
def rig(home: Path, workdir: Path, provider: SwitchedProvider) -> Generator[GatewayRig]:
    rig = GatewayRig(home, workdir, provider)
    yield rig
    rig.close()
