"""The scheduler: what fires, what is missed, skipped, queued, continued and paused, by a clock that the tests set."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import ApprovalsConfig
from hermes.base.errors import HermesError
from hermes.service.schedules.schedule import ScheduleError, check_text
from hermes.service.schedules.scheduler import announced, is_running
from hermes.testing import ScriptedProvider, failure, hanging, text, tool_call
from support.schedule_rig import MONDAY, MakeRig
from support.waiting import wait_until

HOUR, DAY = 3_600.0, 86_400.0


def test_a_due_run_is_a_session_of_its_own(rig: MakeRig) -> None:
    with ScriptedProvider([text("all quiet"), text("still quiet")]) as provider:
        cron = rig(provider)
        schedule = cron.add("0 9 * * *", "check the disks", name="disks")
        assert cron.tick(HOUR - 1) == []
        (report,) = cron.tick(2)
        assert (report.answer, report.error) == ("all quiet", "")
        assert cron.tick(60) == []  # not again
        assert [one.answer for one in cron.tick(DAY)] == ["still quiet"]
    row = cron.host.sessions.get(report.run.session_id)
    assert (row.platform, row.title, row.principal) == ("cron", "disks · 2026-11-16 09:00", "")
    assert cron.runs(schedule) == [("2026-11-16 09:00", "completed"), ("2026-11-17 09:00", "completed")]
    message = provider.requests[0].messages[-1]["content"]
    assert "check the disks" in message
    assert "planned for 2026-11-16 09:00:00 +0000. No one is there" in message
    assert cron.host.sessions.messages(row.id)[0]["content"] == "check the disks"


@pytest.mark.parametrize("prompt", ["/new", "/compress now", "/daily-report of the garden", "  /hermes:help"])
def test_a_slash_command_is_no_prompt(prompt: str) -> None:
    with pytest.raises(ScheduleError, match=r"slash command /.*; say in words what the agent is to do"):
        check_text("", prompt)


def test_a_path_may_begin_a_prompt() -> None:
    for prompt in ("/etc/hosts has changed? Say so.", "/tmp is full? Then clean it.", "/ is the root"):
        assert check_text("", prompt)[1] == prompt


def test_an_interval_keeps_its_grid_when_a_look_is_late(rig: MakeRig) -> None:
    with ScriptedProvider([text("1"), text("2")]) as provider:
        cron = rig(provider)
        schedule = cron.add("every 30m")
        assert len(cron.tick(30 * 60 + 50)) == 1
        assert len(cron.tick(29 * 60 + 10)) == 1
    assert cron.runs(schedule) == [("2026-11-16 08:30", "completed"), ("2026-11-16 09:00", "completed")]


def test_a_moment_fires_once_and_is_over(rig: MakeRig) -> None:
    with ScriptedProvider([text("ding")]) as provider:
        cron = rig(provider)
        schedule = cron.add("in 20m")
        assert [one.answer for one in cron.tick(20 * 60)] == ["ding"]
        assert cron.tick(DAY) == []
    left = cron.schedules.get(schedule.id)
    assert (left.state, left.next_fire) == ("done", None)


def test_a_number_of_runs_may_be_limited(rig: MakeRig) -> None:
    with ScriptedProvider([text("1"), text("2")]) as provider:
        cron = rig(provider)
        schedule = cron.add("every 1h", remaining=2)
        assert [len(cron.tick(HOUR)) for _ in range(4)] == [1, 1, 0, 0]
    assert cron.schedules.get(schedule.id).state == "done"


# -- missed runs and the clock --------------------------------------------------------------------------------------


def test_missed_runs_are_caught_up_once(rig: MakeRig) -> None:
    with ScriptedProvider([text("late")]) as provider:
        cron = rig(provider)
        schedule = cron.add("0 9 * * *")
        (report,) = cron.tick(5 * DAY)
        assert cron.tick() == []
    assert cron.runs(schedule) == [("2026-11-20 09:00", "completed")]
    assert report.run.detail == "times since 2026-11-16 09:00:00 +0000 were missed"
    following = cron.schedules.get(schedule.id).next_fire
    assert following is not None
    assert schedule.clock(following) == "2026-11-21 09:00:00 +0000"


@pytest.mark.parametrize("by", ["setting", "schedule"])
def test_missed_runs_are_skipped_where_that_is_set(rig: MakeRig, by: str) -> None:
    with ScriptedProvider([text("in time")]) as provider:
        cron = rig(provider, {"missed": "skip"} if by == "setting" else {})
        schedule = cron.add("0 9 * * *", missed="" if by == "setting" else "skip")
        once = cron.add("in 1h", missed="skip")
        assert cron.tick(2 * DAY) == []
        assert cron.runs(schedule) == [("2026-11-17 09:00", "skipped")]
        assert cron.schedules.runs(schedule.id)[0].detail.startswith("missed by 82800 s; times since 2026-11-16")
        assert (cron.schedules.get(once.id).state, cron.schedules.get(once.id).reason) == ("done", "missed by 169200 s")
        # A little late is not missed.
        assert [one.answer for one in cron.tick(HOUR + 500)] == ["in time"]


def test_a_clock_that_goes_back_fires_nothing_twice(rig: MakeRig) -> None:
    with ScriptedProvider([text("1"), text("2")]) as provider:
        cron = rig(provider)
        schedule = cron.add("0 * * * *")
        assert len(cron.tick(HOUR)) == 1
        assert cron.tick(-HOUR / 2) == []
        assert cron.tick(HOUR / 2) == []  # 09:00 again
        assert len(cron.tick(HOUR)) == 1
    assert cron.runs(schedule)[-2:] == [("2026-11-16 09:00", "completed"), ("2026-11-16 10:00", "completed")]


def test_a_clock_that_was_far_ahead_does_not_stop_a_schedule(rig: MakeRig) -> None:
    with ScriptedProvider([text("in the future"), text("now")]) as provider:
        cron = rig(provider)
        schedule = cron.add("0 9 * * *")
        assert len(cron.tick(1_000 * DAY)) == 1
        cron.now = MONDAY
        assert cron.tick() == []
        assert [one.answer for one in cron.tick(HOUR)] == ["now"]
    assert cron.runs(schedule)[0] == ("2026-11-16 09:00", "completed")


# -- overlaps -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_overlapping_runs_are_skipped_or_queued(rig: MakeRig, overlap: str) -> None:
    held = threading.Event()
    with ScriptedProvider([text("slow"), text("next"), text("last")]) as provider:
        cron = rig(provider, {"overlap": overlap})
        schedule = cron.add("every 1h")

        def hold(**_kwargs: object) -> None:
            held.wait(60)

        cron.host.hooks.subscribe("pre_llm_call", "test", hold)
        cron.now += HOUR
        cron.scheduler.tick()
        for _ in range(2):
            cron.now += HOUR
            cron.scheduler.tick()
        expected = ["skipped", "skipped"] if overlap == "skip" else ["queued", "skipped"]
        assert [state for _, state in cron.runs(schedule)] == ["running", *expected]
        held.set()
        cron.scheduler.join()
        assert len(cron.tick()) == (0 if overlap == "skip" else 1)
    states = [state for _, state in cron.runs(schedule)]
    assert states == (
        ["completed", "skipped", "skipped"] if overlap == "skip" else ["completed", "completed", "skipped"]
    )


def test_no_more_runs_than_the_setting_allows(rig: MakeRig) -> None:
    with ScriptedProvider([text("1"), text("2"), text("3")]) as provider:
        cron = rig(provider, {"max_running": 2})
        schedules = [cron.add("in 1h", name=f"n{number}") for number in range(3)]
        assert len(cron.tick(HOUR)) == 2
        assert len(cron.tick()) == 1
    assert {cron.schedules.get(one.id).state for one in schedules} == {"done"}


# -- several processes, crashes -------------------------------------------------------------------------------------


def test_two_schedulers_run_a_fire_once(rig: MakeRig) -> None:
    with ScriptedProvider([text(str(number)) for number in range(40)]) as provider:
        rigs = [rig(provider, {"max_running": 20}) for _ in range(3)]
        for number in range(10):
            rigs[0].add("in 1h", name=f"n{number}")
        for one in rigs:
            one.now += HOUR
        threads = [threading.Thread(target=one.scheduler.tick) for one in rigs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in rigs:
            one.scheduler.join()
        assert len(provider.requests) == 10
    assert sum(len(one.reports) for one in rigs) == 10
    assert {run.state for run in rigs[0].schedules.runs()} == {"completed"}


def test_a_run_that_was_stopped_is_continued_by_the_next_scheduler(rig: MakeRig) -> None:
    reached = threading.Event()
    with ScriptedProvider([text("too late"), text("done after all")]) as provider:
        first = rig(provider)
        schedule = first.add("in 1h")

        def wait_for_the_stop(**_kwargs: Any) -> None:
            reached.set()
            wait_until(lambda: first.scheduler._stopping)  # pyright: ignore[reportPrivateUsage]

        first.host.hooks.subscribe("pre_api_request", "test", wait_for_the_stop)
        first.now += HOUR
        first.scheduler.tick()
        assert reached.wait(60)
        first.scheduler.close(30)
        assert [one.is_left for one in first.reports] == [True]
        assert [run.runner for run in first.schedules.runs(schedule.id)] == [None]
        second = rig(provider)
        second.now = first.now + 5
        (report,) = second.tick()
    assert (report.error, report.run.state) == ("", "running")
    assert second.schedules.runs(schedule.id)[0].state == "completed"
    assert second.host.sessions.turn_count(report.run.session_id) == 1


def test_a_run_whose_answer_was_recorded_is_delivered_without_a_second_turn(rig: MakeRig) -> None:
    with ScriptedProvider([text("the answer")]) as provider:
        cron = rig(provider)
        schedule = cron.add("in 1h", deliver="irc:#ops")
        (report,) = cron.tick(HOUR)
        # As a process leaves it that is killed between the end of the turn and the end of the run.
        query = "UPDATE schedule_runs SET state = 'running', runner = 'gone', delivery = '' WHERE schedule_id = ?"
        cron.host.store.write(lambda connection: connection.execute(query, (schedule.id,)))
        (again,) = cron.tick(60)
    assert (again.answer, again.delivery, len(provider.requests)) == ("the answer", "sent to irc:#ops", 1)
    assert [(address.chat, said) for address, said in cron.outbox.messages.values()] == [("#ops", "the answer")]
    assert report.run.request_key in cron.outbox.messages


# -- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("crashes", "ends"), [(3, ""), (4, "5 processes ended while they ran it; it is given up")])
def test_a_run_that_ends_its_process_every_time_is_given_up(rig: MakeRig, crashes: int, ends: str) -> None:
    def stop(**_kwargs: Any) -> None:
        first.scheduler.close(0)

    with ScriptedProvider("done after all") as provider:
        first = rig(provider)
        schedule = first.add("every 1h", deliver="irc:#ops")
        first.host.hooks.subscribe("pre_api_request", "test", stop)
        first.tick(HOUR)
        # As a process leaves it that was killed in its turn, after others.
        query = "UPDATE schedule_runs SET runner = 'gone', crashes = ? WHERE schedule_id = ?"
        first.host.store.write(lambda connection: connection.execute(query, (crashes, schedule.id)))
        second = rig(provider)
        second.now = first.now
        (report,) = second.tick()
    assert (report.error, report.answer) == (ends, "" if ends else "done after all")
    turn = second.host.sessions.turn_of(report.run.session_id, report.run.request_key)
    assert turn is not None and turn.state != "running"
    ((_address, sent),) = second.outbox.messages.values()
    assert ends in sent
    assert second.schedules.runs(schedule.id)[0].crashes == crashes + 1
    assert second.schedules.get(schedule.id).state == "active"


def test_failures_back_off_and_then_pause_with_a_reason(rig: MakeRig) -> None:
    with ScriptedProvider([failure(400, "no such model")] * 4) as provider:
        cron = rig(provider, {"max_failures": 3})
        schedule = cron.add("every 1m")
        assert len(cron.tick(60)) == 1
        following = cron.schedules.get(schedule.id).next_fire
        assert following == cron.now + 120
        assert [len(cron.tick(60)) for _ in range(2)] == [0, 1]
        assert cron.schedules.get(schedule.id).failures == 2
        assert [len(cron.tick(60)) for _ in range(4)] == [0, 0, 0, 1]
    paused = cron.schedules.get(schedule.id)
    assert (paused.state, paused.next_fire) == ("paused", None)
    assert paused.reason.startswith("failed 3 times in a row; the last time: ")
    assert cron.tick(DAY) == []
    resumed = cron.schedules.resume(paused)
    assert (resumed.state, resumed.failures, resumed.reason) == ("active", 0, "")


def test_a_success_ends_the_count_of_failures(rig: MakeRig) -> None:
    with ScriptedProvider([failure(400, "no"), text("fine")]) as provider:
        cron = rig(provider)
        schedule = cron.add("every 1h")
        assert cron.tick(HOUR)[0].error
        assert cron.schedules.get(schedule.id).failures == 1
        assert not cron.tick(HOUR)[0].error
    assert cron.schedules.get(schedule.id).failures == 0


def test_a_run_that_takes_too_long_fails(rig: MakeRig) -> None:
    with ScriptedProvider([hanging()]) as provider:
        cron = rig(provider, {"timeout": 0.2})
        schedule = cron.add("in 1h")
        (report,) = cron.tick(HOUR)
    assert report.error == "it took longer than 0.2 s (cron.timeout)"
    assert cron.runs(schedule)[0][1] == "failed"


def test_a_folder_that_is_gone_fails_the_run_with_advice(rig: MakeRig, tmp_path: Path) -> None:
    with ScriptedProvider([]) as provider:
        cron = rig(provider)
        schedule = cron.add("in 1h", cwd=str(tmp_path / "gone"))
        (report,) = cron.tick(HOUR)
    assert f"is gone; make it again, or give the schedule another with 'hermes cron edit {schedule.id}" in report.error


def test_a_schedule_that_is_removed_while_it_runs_ends_quietly(rig: MakeRig) -> None:
    with ScriptedProvider([text("unread")]) as provider:
        cron = rig(provider)
        schedule = cron.add("in 1h")

        def remove(**_kwargs: object) -> None:
            cron.schedules.remove(schedule)

        cron.host.hooks.subscribe("pre_llm_call", "test", remove)
        (report,) = cron.tick(HOUR)
    assert (report.answer, report.error) == ("unread", "")
    assert cron.schedules.list() == []


# -- by hand --------------------------------------------------------------------------------------------------------


def test_a_schedule_that_was_removed_is_not_run_by_hand(rig: MakeRig) -> None:
    with ScriptedProvider("never") as provider:
        cron = rig(provider)
        schedule = cron.add("every 1h", name="gone")
        cron.schedules.remove(schedule)  # another process, after this one had read it
        with pytest.raises(ScheduleError, match="'gone' has just been removed"):
            cron.scheduler.begin(schedule)


def test_a_run_by_hand_changes_no_planned_time(rig: MakeRig) -> None:
    with ScriptedProvider([text("now"), text("later")]) as provider:
        cron = rig(provider)
        schedule = cron.schedules.pause(cron.add("0 9 * * *"))
        assert cron.scheduler.begin(schedule).execute().answer == "now"
        cron.schedules.resume(schedule)
        assert [one.answer for one in cron.tick(HOUR)] == ["later"]
        soon = cron.schedules.fire_soon(schedule)
        assert soon.next_fire == cron.now
    assert [state for _, state in cron.runs(schedule)] == ["completed", "completed"]


def test_a_schedule_that_is_over_cannot_be_resumed(rig: MakeRig) -> None:
    with ScriptedProvider([text("ding")]) as provider:
        cron = rig(provider)
        schedule = cron.add("in 1m")
        cron.tick(60)
        with pytest.raises(ScheduleError, match=f"is over: .*hermes cron edit {schedule.id} --when"):
            cron.schedules.resume(schedule)
        edited = cron.schedules.edit(schedule, timing="0 10 * * *")
    assert (edited.state, edited.clock(edited.next_fire or 0)) == ("active", "2026-11-16 10:00:00 +0000")


# -- approvals, hooks, delivery -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "runs"), [("deny", False), ("approve", True), ("allow", True)])
def test_cron_mode_decides_what_needs_approval(rig: MakeRig, workdir: Path, mode: Any, runs: bool) -> None:
    (workdir / "old").mkdir()
    (workdir / "old" / "file").write_text("x")
    with ScriptedProvider([tool_call("terminal", {"command": "rm -rf old"}), text("done")]) as provider:
        cron = rig(provider, approvals=ApprovalsConfig(cron_mode=mode, headless="deny"))
        cron.add("in 1h")
        cron.tick(HOUR)
        said = str(provider.requests[1].messages[-1]["content"])
    assert (workdir / "old").exists() is not runs
    assert ("approvals.cron_mode approve" in said) is not runs


def test_headless_allow_is_not_for_scheduled_runs_and_principals_get_nothing_approved(
    rig: MakeRig, workdir: Path
) -> None:
    (workdir / "old").mkdir()
    script = [tool_call("terminal", {"command": "rm -rf old"}), text("done")]
    with ScriptedProvider([*script, *script]) as provider:
        cron = rig(provider, approvals=ApprovalsConfig(cron_mode="deny", headless="allow"))
        cron.add("in 1h")
        cron.tick(HOUR)
        callers = rig(provider, approvals=ApprovalsConfig(cron_mode="approve", headless="allow"))
        callers.add("in 1h", principal="mallory")
        callers.tick(HOUR)
        assert len(provider.requests) == 4
        assert "approvals.cron_mode" not in str(provider.requests[3].messages[-1]["content"])
    assert (workdir / "old").exists()


def test_hooks_fire_in_scheduled_runs(rig: MakeRig) -> None:
    hooks = ("on_session_start", "pre_llm_call", "post_llm_call", "on_session_end", "on_session_finalize")
    seen: list[tuple[str, str, str]] = []

    def note(hook: str) -> Callable[..., None]:
        def callback(platform: str = "", reason: str = "", **_kwargs: object) -> None:
            seen.append((hook, platform, reason))

        return callback

    with ScriptedProvider([text("ok")]) as provider:
        cron = rig(provider)
        for hook in hooks:
            cron.host.hooks.subscribe(hook, "test", note(hook))
        cron.add("in 1h")
        cron.tick(HOUR)
    assert [one[:2] for one in seen] == [(hook, "cron") for hook in hooks]
    assert seen[-1][2] == "cron_complete"


def test_answers_are_written_into_files(rig: MakeRig, workdir: Path, home: Path) -> None:
    with ScriptedProvider([text("first"), text("second"), text("x"), text("[SILENT]")]) as provider:
        cron = rig(provider)
        cron.add("0 9 * * *", deliver="file:reports/%Y-%m-%d.md")
        assert cron.tick(HOUR)[0].delivery == f"written to {workdir}/reports/2026-11-16.md"
        cron.tick(DAY)
        assert (workdir / "reports" / "2026-11-17.md").read_text() == "second\n"
        forbidden = cron.add("in 1h", deliver=f"file:{home}/config.yaml")
        cron.tick(HOUR)
        assert "the answer could not be delivered" in cron.schedules.runs(forbidden.id)[0].detail
        silent = cron.add("in 1h", deliver="file:nothing.md")
        assert cron.tick(HOUR)[0].delivery == "nothing to report"
        assert cron.runs(silent)[0][1] == "completed"
    assert not (workdir / "nothing.md").exists()
    assert not (home / "config.yaml").exists()


def test_a_principal_cannot_write_outside_of_its_folder(rig: MakeRig, workdir: Path) -> None:
    (workdir / "own").mkdir()
    with ScriptedProvider([text("x")]) as provider:
        cron = rig(provider)
        cron.add("in 1h", cwd=str(workdir / "own"), principal="mallory", deliver="file:../stolen.md")
        assert "is outside of the folder of mallory" in cron.tick(HOUR)[0].error
    assert not (workdir / "stolen.md").exists()


def test_chats_hear_of_failures_and_principals_not_of_their_words(rig: MakeRig) -> None:
    with ScriptedProvider([failure(400, "secret words")] * 2) as provider:
        cron = rig(provider)
        cron.add("in 1h", name="mine", deliver="irc:#ops")
        cron.add("in 1h", name="theirs", deliver="irc:#them", principal="mallory")
        cron.tick(HOUR)
    said = {address.chat: message for address, message in cron.outbox.messages.values()}
    assert said["#ops"].startswith("The scheduled run “mine” failed: ")
    assert said["#them"] == "The scheduled run “theirs” failed"


# -- the loop -------------------------------------------------------------------------------------------------------


def test_the_loop_fires_what_is_added_while_it_waits_and_shows_that_it_runs(rig: MakeRig, home: Path) -> None:
    with ScriptedProvider([text("ok")]) as provider:
        cron = rig(provider)
        stop = threading.Event()
        thread = threading.Thread(target=cron.scheduler.serve, args=(stop,))
        thread.start()
        try:
            wait_until(lambda: is_running(home))
            schedule = cron.add("in 1m")
            cron.now += 60
            cron.scheduler.wake()
            wait_until(lambda: cron.runs(schedule) and cron.runs(schedule)[0][1] == "completed")
        finally:
            stop.set()
            cron.scheduler.close()
            thread.join(60)
    assert not thread.is_alive()
    assert not is_running(home)


def test_a_look_that_fails_does_not_end_the_loop(rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedProvider([]) as provider:
        cron = rig(provider)
        looks: list[int] = []

        def fail() -> list[Any]:
            looks.append(1)
            raise HermesError("the disk is full")

        monkeypatch.setattr(cron.scheduler, "tick", fail)
        stop = threading.Event()
        thread = threading.Thread(target=cron.scheduler.serve, args=(stop,))
        thread.start()
        wait_until(lambda: len(looks) == 1)
        cron.scheduler.wake()
        wait_until(lambda: len(looks) >= 2)
        stop.set()
        cron.scheduler.wake()
        thread.join(60)
    assert not thread.is_alive()


def test_several_schedulers_may_announce_themselves(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    with announced(tmp_path), announced(tmp_path):
        assert is_running(tmp_path)
    assert not is_running(tmp_path)
    assert (tmp_path / "cron.lock").stat().st_mode & 0o777 == 0o600
