"""Scheduled runs in a cluster: the scheduler submits their turns, and workers run them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.dispatch.scheduled import DispatchedRuns
from hermes.schedules.run import RunReport
from hermes.schedules.scheduler import Scheduler
from hermes.schedules.store import Schedules, new_schedule
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, text, tool_call
from support import run_hermes
from support.cluster_rig import ClusterRig
from support.waiting import HANG, wait_until

pytestmark = pytest.mark.slow


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
