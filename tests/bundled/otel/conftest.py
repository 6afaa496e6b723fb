"""A collector, and runs of every kind that it sees."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hermes.testing import OtlpReceiver
from support.otel_rig import TracedRig


@pytest.fixture(autouse=True)
def standard_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OTEL_") or name in ("TRACEPARENT", "TRACESTATE"):
            monkeypatch.delenv(name)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Generator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        yield receiver


@pytest.fixture
def rig(home: Path, workdir: Path, receiver: OtlpReceiver) -> Generator[TracedRig]:
    with ExitStack() as stack:
        yield TracedRig(home, workdir, stack, receiver)
