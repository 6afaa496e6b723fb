"""Exporters count what comes in and gets out; the journal, ``doctor`` and ``plugins list`` tell of it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from hermes.journal.store.sqlite.store import SqliteStore
from hermes.journal.usage.plugins import PluginCalls, plugin_totals
from hermes.testing import ScriptedProvider
from hermes.trace import health
from hermes.trace.health import ExporterHealth
from support import run_hermes, write_config
from support.trace_runs import SECRET


@pytest.fixture
def exporter() -> Generator[ExporterHealth]:
    health.take()
    made = ExporterHealth("acme/out", "http://localhost:4318")
    yield made
    made.close()


def test_counts_are_taken_once(exporter: ExporterHealth) -> None:
    exporter.received(3)
    exporter.sent(2)
    exporter.failed(OSError(f"refused\n{SECRET}"))
    assert (exporter.events_in, exporter.events_out, exporter.events_failed) == (3, 2, 1)
    assert exporter.last_error == "OSError: refused <redacted>"
    expected = PluginCalls("acme/out", "export:http://localhost:4318", 3, 1, 0.0, "OSError: refused <redacted>")
    assert health.take() == [expected]
    assert health.take() == []
    exporter.received()
    assert [one.calls for one in health.take()] == [1]


def test_what_went_wrong_without_a_loss_is_told_too(exporter: ExporterHealth) -> None:
    exporter.failed("no such folder", 0)
    assert [(one.calls, one.failures, one.last_error) for one in health.take()] == [(0, 0, "no such folder")]
    exporter.received()
    assert [(one.calls, one.failures, one.last_error) for one in health.take()] == [(1, 0, "")]


def test_two_that_send_to_the_same_place_are_one(exporter: ExporterHealth) -> None:
    second = ExporterHealth(exporter.plugin, exporter.target)
    exporter.received()
    second.received(2)
    assert [one.calls for one in health.take()] == [3]
    second.close()
    second.received()
    assert health.take() == []


PLUGIN = """
from hermes.trace.health import ExporterHealth


def register(ctx):
    out = ExporterHealth(ctx.manifest.key, "collector")
    ctx.register_hook("post_api_request", lambda model: out.received(2))
    ctx.register_hook("on_session_finalize", lambda session_id: (out.sent(), out.failed("no route to host")))
"""


def test_what_an_exporter_counted_is_shown(home: Path, workdir: Path) -> None:
    folder = home / "plugins" / "out"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: out\n")
    (folder / "__init__.py").write_text(PLUGIN)
    with ScriptedProvider("hi") as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [out]\n")
        assert run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir).returncode == 0
        listed = run_hermes("plugins", "list", home=home, cwd=workdir).stdout
        found = run_hermes("doctor", home=home, cwd=workdir).stdout
    assert "events to collector: 2 in, 1 out" in listed
    assert "collector: 2 events in, 1 out; last: no route to host" in found
    store = SqliteStore(home / "state.db")
    total = plugin_totals(store)["out"]
    store.close()
    assert (total.calls, total.failures) == (2, 0)  # the callbacks', not the events
    assert total.sites == ["on_session_finalize", "post_api_request"]
