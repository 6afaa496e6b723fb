"""A Langfuse of our own, and runs of every kind that are sent to it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.langfuse_rig import LangfuseRig, LangfuseServer


@pytest.fixture(autouse=True)
def no_keys_of_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("LANGFUSE_", "OTEL_")) or name == "TRACEPARENT":
            monkeypatch.delenv(name)


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    pair = f"pk-lf-{uuid.uuid4()}", f"sk-lf-{uuid.uuid4()}"
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", pair[0])
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", pair[1])
    return pair


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, keys: tuple[str, str]) -> Generator[LangfuseServer]:
    with LangfuseServer(*keys) as server:
        monkeypatch.setenv("LANGFUSE_BASE_URL", server.url)
        yield server


@pytest.fixture
def rig(home: Path, workdir: Path, server: LangfuseServer) -> Generator[LangfuseRig]:
    with ExitStack() as stack:
        yield LangfuseRig(home, workdir, stack, server)
