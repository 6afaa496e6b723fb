"""Scheduled runs in a cluster: the scheduler submits their turns, and workers run them."""

from __future__ import annotations

import json
import subprocess
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hermes.service.dispatch.scheduled import DispatchedRuns
from hermes.service.schedules.run import RunReport
from hermes.service.schedules.scheduler import Scheduler
from hermes.service.schedules.store import Schedules, new_schedule
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, text, tool_call
from support import run_hermes, start_hermes
from support.cluster_rig import ClusterRig
from support.gateway_rig import LineClient, add_line_platform
from support.waiting import HANG, wait_until

pytestmark = pytest.mark.slow

RUNS = "SELECT s.name, r.state FROM schedule_runs r JOIN schedules s ON s.id = r.schedule_id WHERE r.state = %s"


class ClusterSchedules:
    """The schedules of a cluster, and one of its schedulers."""

    def __init__(self, rig: ClusterRig) -> None:
        dispatcher = rig.dispatcher()
        host = rig.host()
        self.reports: list[RunReport] = []
        self.schedules = Schedules(host.store)
        turns = DispatchedRuns(host, dispatcher)
        self.scheduler = Scheduler(host, turns=turns, on_report=self.reports.append)
        self._host = host

    def add(self, prompt: str, cwd: Path, **more: Any) -> Any:
        fields: dict[str, Any] = {"name": prompt, "timing": "every 1h", "zone": "UTC", "cwd": str(cwd), "now": 0.0}
        return self.schedules.add(new_schedule(prompt=prompt, **{**fields, **more}))

    def end(self) -> None:
        """As if its process had ended."""
        self.scheduler.close()
        self._host.close()


def test_the_gateway_and_the_daemon_fire_schedules_that_workers_run(postgres_url: str, tmp_path: Path) -> None:
    """Each as a process of its own: answers reach a chat, a run that a scheduler left is delivered by the next one."""
    gate, held = threading.Event(), threading.Event()

    def script(request: RecordedRequest) -> Any:
        said = request.last_user_text
        if "slowly" not in said:
            return text(f"report of {said.split()[0]}")
        held.set()
        return text("late report", hold=gate)

    with ScriptedProvider(script) as provider:
        rig = ClusterRig(tmp_path, postgres_url, provider, slots=4)
        processes: list[subprocess.Popen[str]] = []

        def start(*arguments: str) -> subprocess.Popen[str]:
            processes.append(start_hermes(*arguments, home=rig.home, cwd=rig.cwd))
            return processes[-1]

        def runs(state: str) -> list[tuple[str, str]]:
            return rig.query(RUNS, state)

        port_file = tmp_path / "port"
        add_line_platform(rig.home, port_file)
        try:
            rig.start_workers(1)
            with closing(rig.host()) as host:
                make = Schedules(host.store).add
                always: dict[str, Any] = {"timing": "every 1h", "zone": "UTC", "cwd": str(rig.cwd), "now": 0.0}
                make(new_schedule(prompt="daemon", name="daemon", deliver="file:daemon.md", **always))
                make(new_schedule(prompt="work slowly", name="slow", deliver="line:alice", **always))
            # The daemon fires both; it is killed while a worker runs the second one.
            daemon = start("cron", "daemon")
            assert held.wait(HANG)
            wait_until(lambda: runs("completed") == [("daemon", "completed")], "the report of the daemon")
            assert (rig.cwd / "daemon.md").read_text() == "report of daemon\n"
            daemon.kill()
            daemon.wait(HANG)
            # The gateway follows the run that the daemon left, and fires what is due.
            with closing(rig.host()) as host:
                Schedules(host.store).add(
                    new_schedule(prompt="gateway", name="gateway", deliver="line:alice", **always)
                )
            start("gateway", "run", "--no-api")
            wait_until(lambda: port_file.exists() and port_file.read_text().endswith("\n"), "the platform")
            client = LineClient(int(port_file.read_text()))
            assert client.hear(1) == ["report of gateway"]
            gate.set()
            assert client.hear(2) == ["report of gateway", "late report"]
            client.close()
            all_runs = [(name, "completed") for name in ("daemon", "gateway", "slow")]
            wait_until(lambda: sorted(runs("completed")) == all_runs, "the end of every run")
            assert rig.query("SELECT count(*) FROM turns WHERE source = 'cron'") == [(3,)]
            assert rig.query("SELECT DISTINCT dispatches FROM submissions") == [(1,)]
        finally:
            gate.set()
            for process in processes:
                process.kill()
                process.wait(HANG)
            rig.close()


def test_scheduled_runs_are_run_by_workers(postgres_url: str, tmp_path: Path) -> None:
    gate, asked = threading.Event(), threading.Event()
    works = by_step(tool_call("terminal", {"command": "echo ran >> ran"}), text("it is done", hold=gate))

    def script(request: RecordedRequest) -> Any:
        said = request.last_user_text
        if said.startswith("risky"):
            return by_step(tool_call("terminal", {"command": "rm -rf ./x"}), text("refused"))(request)
        if not said.startswith("work"):
            return text(f"{request.body['model']} reports")
        if any(message["role"] == "tool" for message in request.messages):
            asked.set()
        return works(request)

    with ScriptedProvider(script) as provider:
        rig = ClusterRig(tmp_path, postgres_url, provider, slots=4)
        try:
            (worker,) = rig.start_workers(1)
            # From the command line, with a model of its own, in the folder of the schedule.
            added = run_hermes(
                "cron", "add", "every 1h", "report", "--name", "r", "--model", "other", home=rig.home, cwd=rig.cwd
            )
            assert added.returncode == 0, added.stderr
            made = run_hermes("cron", "run", "r", "--json", home=rig.home, cwd=rig.cwd)
            report = json.loads(made.stdout)
            assert (report["state"], report["answer"]) == ("completed", "other reports"), made.stderr
            (row,) = rig.query("SELECT source, title FROM turns t JOIN sessions s ON s.id = t.session_id")
            assert row[0] == "cron" and row[1].startswith("r · ")
            assert rig.query("SELECT dispatches FROM submissions") == [(1,)]
            # No one is there to approve: refused, not asked. A scheduler that stops leaves its run to the workers.
            first = ClusterSchedules(rig)
            run = first.scheduler.begin(first.add("risky", rig.cwd))
            assert run.execute().answer == "refused"
            first.scheduler.fire(first.add("work", rig.cwd))
            assert asked.wait(HANG)
            first.end()
            assert [report.is_left for report in first.reports] == [True]
            gate.set()
            second = ClusterSchedules(rig)
            second.scheduler.tick(only_begun=True)
            second.scheduler.join()
            assert [report.answer for report in second.reports] == ["it is done"]
            # A run that takes too long, or is stopped by hand, is stopped on its worker.
            gate.clear()
            asked.clear()
            slow = second.scheduler.begin(second.add("work slowly", rig.cwd))
            stopped = threading.Thread(target=lambda: second.reports.append(slow.execute()))
            stopped.start()
            assert asked.wait(HANG)
            slow.interrupt.cancel("interrupted by hand")
            stopped.join(HANG)
            assert second.reports[-1].error == "interrupted by hand"
            running = "SELECT count(*) FROM turns WHERE state IN ('queued', 'running')"
            wait_until(lambda: rig.query(running) == [(0,)], "the end of all turns")
            assert worker.process.poll() is None
        finally:
            gate.set()
            rig.close()
    assert (tmp_path / "work" / "ran").read_text() == "ran\nran\n"
