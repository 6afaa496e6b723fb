"""Plugins and schedules: jobs under upstream's names, and schedulers that decide when schedules fire."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import CronConfig, PluginsConfig
from hermes.base.scope import Scope, current_scope
from hermes.host import Host
from hermes.service.schedules.provider import serve
from hermes.service.schedules.scheduler import Scheduler, is_running
from hermes.service.schedules.store import Schedules, new_schedule
from hermes.testing import ScriptedProvider, text
from support.configured import configured_host, write_plugin
from support.waiting import wait_until

JOBS = """
from cron.jobs import create_job, get_job, list_jobs, pause_job, remove_job, resume_job, trigger_job, update_job
from cron.jobs import parse_schedule

def register(ctx):
    def run(raw):
        job = create_job("dream", "0 3 * * *", name="dreaming", deliver="local")
        assert [one["name"] for one in list_jobs()] == ["dreaming"]
        assert pause_job(job["id"], "tired")["paused_reason"] == "tired"
        assert list_jobs() == [] and len(list_jobs(include_disabled=True)) == 1
        assert resume_job("dreaming")["enabled"]
        updated = update_job(job["id"], {"schedule": "every 2h", "prompt": "dream on"})
        assert (updated["schedule_display"], updated["prompt"]) == ("every 2h", "dream on")
        assert trigger_job(job["id"])["next_run_at"] < updated["next_run_at"]
        assert get_job("nothing") is None and not remove_job("nothing")
        assert parse_schedule("every 2h") == {"kind": "interval", "minutes": 120, "display": "every 2h"}
        assert parse_schedule("0 3 * * *") == {"kind": "cron", "expr": "0 3 * * *", "display": "0 3 * * *"}
        assert parse_schedule("in 30m")["kind"] == "once" and "T" in parse_schedule("in 30m")["run_at"]
        try:
            parse_schedule("now and then")
        except ValueError as error:
            assert "allowed are" in str(error)
        else:
            raise AssertionError
        try:
            create_job("x", "every 1h", script="x.sh")
        except Exception as error:
            assert "not offered" in str(error)
        else:
            raise AssertionError
        return job["id"]
    ctx.register_command("jobs", run)
"""

SCHEDULER = """
import threading
from cron.scheduler_provider import CronScheduler

class Webhooks(CronScheduler):
    calls = []

    @property
    def name(self):
        return "webhooks"

    def is_available(self):
        return AVAILABLE

    def start(self, stop_event, *, adapters=None, loop=None, interval=60):
        self.calls.append(("start", interval))
        if FAILS:
            raise RuntimeError("no service")

    def stop(self):
        self.calls.append("stop")

    def on_jobs_changed(self):
        self.calls.append("changed")

    def reconcile(self):
        self.calls.append("reconcile")

def register(ctx):
    ctx.register_cron_scheduler(Webhooks())
"""


def plugin_host(home: Path, workdir: Path, provider: ScriptedProvider, name: str, cron: str = "") -> Host:
    return configured_host(
        *(home, workdir, provider), plugins=PluginsConfig(enabled=[name]), cron=CronConfig(provider=cron)
    )


def add(host: Host, timing: str = "every 1h") -> str:
    fields: dict[str, Any] = {"prompt": "x", "zone": "UTC", "cwd": str(host.cwd), "now": 1_600_000_000.0}
    return Schedules(host.store).add(new_schedule(name="mine", timing=timing, **fields)).id


def test_plugins_make_schedules_under_upstreams_names(home: Path, workdir: Path) -> None:
    write_plugin(home, "dreams", JOBS)
    with ScriptedProvider([]) as provider, plugin_host(home, workdir, provider, "dreams") as host:
        command = host.plugins.commands["jobs"].handler
        assert isinstance(command(""), str)
        owners = Schedules(host.store).list()
        token = current_scope.set(Scope(session_id="s", principal="alice"))
        try:
            command("")
        finally:
            current_scope.reset(token)
        assert [(one.source, one.principal, one.cwd) for one in owners] == [("plugin", "", str(workdir))]
        assert [one.principal for one in Schedules(host.store).list("alice")] == ["alice"]


def start(host: Host) -> tuple[threading.Event, threading.Thread, Scheduler]:
    scheduler, stop = Scheduler(host), threading.Event()
    thread = threading.Thread(target=serve, args=(host, scheduler, stop))
    thread.start()
    return stop, thread, scheduler


def test_the_scheduler_of_a_plugin_decides_when_schedules_fire(home: Path, workdir: Path) -> None:
    write_plugin(home, "waker", f"AVAILABLE, FAILS = True, False\n{SCHEDULER}")
    with (
        ScriptedProvider([text("fired")]) as provider,
        plugin_host(home, workdir, provider, "waker", "webhooks") as host,
    ):
        schedule_id = add(host)  # long overdue: the clock would fire it
        (offer,) = host.plugins.offers("cron_scheduler")
        stop, thread, scheduler = start(host)
        try:
            wait_until(lambda: "reconcile" in offer.value.calls and offer.value.fire_now is not None)
            assert is_running(home)
            assert offer.value.fire_due(schedule_id)
            assert not offer.value.fire_due("nothing")
            wait_until(lambda: [run.state for run in Schedules(host.store).runs()] == ["completed"])
            add(host)
            scheduler.wake()
            wait_until(lambda: "changed" in offer.value.calls)
        finally:
            stop.set()
            scheduler.wake()
            thread.join(60)
        assert ("start", 60) in offer.value.calls
        assert offer.value.calls[-1] == "stop"
        assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("source", "named", "said"),
    [
        (f"AVAILABLE, FAILS = False, False\n{SCHEDULER}", "webhooks", "is not available; the built-in one is used"),
        (f"AVAILABLE, FAILS = True, True\n{SCHEDULER}", "webhooks", "no service"),
        (f"AVAILABLE, FAILS = True, False\n{SCHEDULER}", "other", "offers 'other'"),
    ],
)
def test_without_a_usable_plugin_the_clock_decides(
    home: Path, workdir: Path, caplog: pytest.LogCaptureFixture, source: str, named: str, said: str
) -> None:
    write_plugin(home, "waker", source)
    caplog.set_level(logging.WARNING)
    with ScriptedProvider([text("fired")]) as provider, plugin_host(home, workdir, provider, "waker", named) as host:
        add(host, "in 1m")
        stop, thread, scheduler = start(host)
        try:
            wait_until(lambda: [run.state for run in Schedules(host.store).runs()] == ["completed"])
        finally:
            stop.set()
            scheduler.wake()
            thread.join(60)
    assert said in caplog.text
