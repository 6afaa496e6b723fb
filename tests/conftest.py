"""Fixtures shared by all tests: a private home, a scripted model behind a real socket, hosts that are always closed."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings

from hermes.base.config import Config
from hermes.base.config.schema.sections import AgentConfig, JournalConfig, ModelConfig, PluginsConfig, TerminalConfig
from hermes.base.http.tls import VARIABLES
from hermes.host import Host, HostOptions
from hermes.testing import ScriptedProvider
from support import HostFactory
from support.connections import no_connection_is_left_open
from support.postgres import own_postgres, postgres_server_url, postgres_url
from tiers import is_quick, mark_quick

#: Fixtures of another module, which pytest finds here.
__all__ = ["no_connection_is_left_open", "own_postgres", "postgres_server_url", "postgres_url"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("hermes", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hermes")


# A run in the background (``pytest &``, ``nohup``) ignores signals, and every process that a test starts would too.
for _signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.default_int_handler if _signal is signal.SIGINT else signal.SIG_DFL)


def _rewrite_one_module_at_a_time() -> None:
    """pytest rewrites the modules of packages with a pytest plugin (anyio, hypothesis) when they are imported.

    Parsing in two threads at once fails in CPython 3.11 ("AST constructor recursion depth mismatch"), and servers and
    turns import what they need on their own threads.
    """
    lock, original = threading.Lock(), rewrite._rewrite_test  # pyright: ignore[reportPrivateUsage]

    def locked(*arguments: Any) -> Any:
        with lock:
            return original(*arguments)

    rewrite._rewrite_test = locked  # pyright: ignore[reportPrivateUsage]


_rewrite_one_module_at_a_time()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # Importing the SDKs that the other tests need would cost more than the quick tests themselves.
    return True if config.getoption("markexpr") == "quick" and not is_quick(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: there is none while modules are imported, and much to look through.

    What was imported stays until the end, so no collection looks at it later either.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_quick(items)


@pytest.fixture(autouse=True)
def private_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the keys, settings, sessions, proxies or certificates of the person who runs it."""
    private = ("_API_KEY", "_BASE_URL", "_PROXY")
    for name in list(os.environ):
        # pytest gives its worker processes a width, which would be that of a terminal.
        if name.startswith("HERMES_") or name.upper().endswith(private) or name in VARIABLES or name == "COLUMNS":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def make_host(home: Path, workdir: Path) -> Generator[HostFactory]:
    """Builds hosts that talk to a scripted provider; each is closed when the test ends."""
    with ExitStack() as stack:

        def build(
            provider: ScriptedProvider,
            *,
            retries: int = 0,
            limits: PluginsConfig | None = None,
            journal_url: str = "",
            sandbox: Literal["auto", "off"] = "auto",
            **options: Any,
        ) -> Host:
            config = Config(
                model=ModelConfig(
                    provider="custom", default="scripted", base_url=provider.base_url, api_key="test-key"
                ),
                agent=AgentConfig(api_max_retries=retries),
                plugins=limits or PluginsConfig(),
                journal=JournalConfig(url=journal_url),
                terminal=TerminalConfig(sandbox=sandbox),
            )
            return stack.enter_context(Host(home, config, HostOptions(**options), cwd=workdir, env={}))

        yield build
