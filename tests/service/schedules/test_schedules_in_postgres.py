"""Schedules in a journal that several machines share: PostgreSQL."""

from __future__ import annotations

import threading

from hermes.base.config.schema.sections import JournalConfig
from hermes.testing import ScriptedProvider, failure, text
from support.schedule_rig import MakeRig

HOUR = 3_600.0


def test_schedulers_of_a_shared_journal_run_a_fire_once(rig: MakeRig, postgres_url: str) -> None:
    with ScriptedProvider([*(text("done") for _ in range(6)), failure(400, "no")]) as provider:
        rigs = [
            rig(provider, {"max_running": 10, "keep_runs": 2}, journal=JournalConfig(url=postgres_url)) for _ in "ab"
        ]
        first, second = rigs
        for number in range(5):
            first.add("in 1h", name=f"n{number}")
        hourly = first.add("every 1h", name="hourly", missed="skip", overlap="queue", deliver="irc:#ops")
        for one in rigs:
            one.now += HOUR
        threads = [threading.Thread(target=one.scheduler.tick) for one in rigs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in rigs:
            one.scheduler.join()
        assert len(provider.requests) == 6
        assert {run.state for run in second.schedules.runs()} == {"completed"}
        (report,) = second.tick(HOUR)
        assert report.error
        assert second.schedules.get("hourly").failures == 1
        second.tick(10 * HOUR + 700)  # missed
        second.tick(-20 * HOUR)  # the clock goes back
    assert [state for _, state in second.runs(hourly)] == ["completed", "failed", "skipped"]
    assert second.schedules.pause(hourly).state == "paused"
    assert second.schedules.resume(hourly).state == "active"
    second.schedules.remove(hourly)
    assert second.schedules.runs(hourly.id) == []
