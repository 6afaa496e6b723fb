"""Rigs of a scheduler that share a home."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import CronConfig
from hermes.testing import ScriptedProvider
from support.configured import configured_host
from support.schedule_rig import MakeRig, Rig


@pytest.fixture
def rig(home: Path, workdir: Path) -> Iterator[MakeRig]:
    """Makes rigs; several of one provider share the home."""
    with ExitStack() as stack:

        def make(provider: ScriptedProvider, cron: dict[str, Any] | None = None, **sections: Any) -> Rig:
            options = {"platform": "cron", "unattended": True}
            host = configured_host(
                *(home, workdir, provider), options=options, cron=CronConfig(**(cron or {})), **sections
            )
            stack.callback(host.close)
            return Rig(host)

        yield make
