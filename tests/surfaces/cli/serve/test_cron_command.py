"""``hermes cron``: schedules by command, runs by hand, by a tick and by the daemon."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from hermes.journal.store.port import home_store
from hermes.service.schedules.scheduler import is_running
from hermes.service.schedules.store import Schedules
from hermes.surfaces.cli.main import main
from hermes.testing import ScriptedProvider, ScriptedReply, failure, hanging, text
from support import run_hermes, start_hermes, write_config
from support.waiting import wait_until


@pytest.fixture(autouse=True)
def in_folder(home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    monkeypatch.chdir(workdir)


class Cron:
    """The command, in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """What it prints; an error goes to the same text."""
        assert main(["cron", *arguments]) == code
        captured = self._capsys.readouterr()
        return captured.out + (captured.err if code else "")

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def cron(capsys: pytest.CaptureFixture[str]) -> Cron:
    return Cron(capsys)


def make_due(home: Path, name: str) -> None:
    """Move the next fire of a schedule into the past."""
    store = home_store(home)
    query = "UPDATE schedules SET next_fire = ? WHERE name = ?"
    store.write(lambda connection: connection.execute(query, (time.time() - 0.001, name)))
    store.close()


def test_a_schedule_through_its_life(cron: Cron, home: Path, workdir: Path) -> None:
    assert cron().startswith("No schedules. 'hermes cron add WHEN PROMPT' makes one")
    added = cron.json("add", "0 9 * * mon-fri", "What is new?", "--name", "news", "--deliver", "file:news.md")
    assert (added["zone"], added["cwd"], added["deliver"]) == ("Europe/Berlin", str(workdir), "file:news.md")
    assert "news" in cron("list")
    shown = cron("show", added["id"][:4])
    assert "0 9 * * mon-fri (Europe/Berlin)" in shown
    assert "missed runs  once" in shown
    edited = cron.json("edit", "news", "--when", "every 2h", "--missed", "skip", "--tz", "UTC", "--times", "3")
    assert (edited["timing"], edited["missed"], edited["zone"], edited["remaining"]) == ("every 2h", "skip", "UTC", 3)
    assert edited["next_fire"] == edited["anchor"] + 7_200
    assert "holidays" in cron("pause", "news", "--reason", "holidays") + cron("list")
    assert cron.json("resume", "news")["state"] == "active"
    assert cron("history", "news") == "No runs yet.\n"
    assert cron("remove", "news").startswith(f"removed {added['id']}")
    assert cron.json("list") == []


def test_errors_say_what_to_do(cron: Cron, home: Path) -> None:
    home.mkdir(exist_ok=True)
    assert "allowed are a cron expression of five fields" in cron("add", "whenever", "x", code=1)
    assert "did you mean 'Europe/Berlin'" in cron("add", "@daily", "x", "--tz", "Europe/Berln", code=1)
    assert "not set up in gateway.platforms" in cron("add", "@daily", "x", "--deliver", "telegram:1", code=1)
    assert "names no file" in cron("add", "@daily", "x", "--deliver", "file:", code=1)
    cron("add", "@daily", "x", "--name", "own", "--deliver", "file:config.yaml")  # of this folder, not of the home
    for refused in (
        cron("add", "@daily", "x", "--deliver", f"file:{home}/config.yaml", code=1),
        cron("edit", "own", "--cwd", str(home), code=1),
    ):
        assert f"answers cannot be written to {home}/config.yaml" in refused and "file tools" not in refused
    cron("remove", "own")
    assert "the prompt is empty" in cron("add", "@daily", "  ", code=1)
    assert "is not a folder" in cron("add", "@daily", "x", "--cwd", "gone", code=1)
    assert "there is no schedule 'x'; there are none" in cron("show", "x", code=1)
    cron("add", "@daily", "one", "--name", "same")
    cron("add", "@daily", "two", "--name", "same")
    assert "fits several schedules" in cron("show", "same", code=1)
    assert "nothing to change" in cron("edit", cron.json("list")[0]["id"], code=1)


def test_the_next_times_can_be_looked_at_before(cron: Cron) -> None:
    assert cron.json("next", "0 12 24 12 *", "--tz", "UTC", "--count", "2")["times"][0] > time.time()
    lines = cron("next", "every 1d", "--count", "3").splitlines()
    assert len(lines) == 3
    cron("add", "@hourly", "x", "--name", "hourly")
    assert len(cron("next", "hourly", "--count", "2").splitlines()) == 2
    assert "is not a time or schedule" in cron("next", "nothing", code=1)


def test_platforms_have_a_home_channel(cron: Cron, home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(
        "gateway:\n  platforms:\n    irc: {home_channel: '#ops'}\n    email: {}\ncron: {timezone: Asia/Tokyo}\n"
    )
    added = cron.json("add", "@daily", "x", "--deliver", "irc")
    assert (added["deliver"], added["zone"]) == ("irc:#ops", "Asia/Tokyo")
    assert "has no home channel; name a chat (email:CHAT)" in cron("add", "@daily", "x", "--deliver", "email", code=1)
    assert cron.json("add", "@daily", "x", "--deliver", "email:a@b.example")["deliver"] == "email:a@b.example"


def test_a_run_by_hand_prints_the_answer(cron: Cron, home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("all is well"), failure(400, "no")]) as provider:
        write_config(home, provider.base_url)
        cron("add", "@daily", "how are you?", "--name", "check", "--deliver", "file:out.md")
        assert cron("run", "check") == "all is well\n"
        assert (workdir / "out.md").read_text() == "all is well\n"
        assert "Error: " in cron("run", "check", code=1)
    history = cron.json("history")
    assert [(run["state"], run["is_manual"]) for run in history] == [("failed", True), ("completed", True)]
    sessions = run_hermes("sessions", "list", home=home, cwd=workdir).stdout
    assert "check ·" in sessions


def test_a_tick_runs_what_is_due_and_ends(cron: Cron, home: Path) -> None:
    with ScriptedProvider([text("done"), failure(400, "broken")]) as provider:
        write_config(home, provider.base_url)
        cron("add", "every 1h", "x", "--name", "mine")
        assert cron("tick") == ""
        make_due(home, "mine")
        assert cron("tick").endswith("mine done\n")
        assert cron("tick") == ""
        make_due(home, "mine")
        assert "mine failed: " in cron("tick", code=1)
    assert "1 failure" in cron("list")


def test_an_answer_for_a_chat_waits_for_the_gateway(cron: Cron, home: Path) -> None:
    with ScriptedProvider([text("done")]) as provider:
        write_config(home, provider.base_url, "gateway: {platforms: {irc: {}}}\n")
        cron("add", "every 1h", "x", "--name", "mine", "--deliver", "irc:#ops")
        make_due(home, "mine")
        assert cron("tick").endswith("mine done (to be sent to irc:#ops when the gateway runs)\n")


def test_a_run_that_is_interrupted_by_hand_is_no_failure_of_the_schedule(cron: Cron, home: Path) -> None:
    def interrupt(_request: object) -> ScriptedReply:
        os.kill(os.getpid(), signal.SIGINT)
        return hanging()

    with ScriptedProvider(interrupt) as provider:
        write_config(home, provider.base_url, "gateway: {platforms: {irc: {}}}\n")
        cron("add", "@daily", "x", "--name", "mine", "--deliver", "irc:#ops")
        assert "Error: interrupted by hand" in cron("run", "mine", code=1)
    [past] = cron.json("history")
    assert (past["state"], past["detail"], past["delivery"]) == ("failed", "interrupted by hand", "")
    assert cron.json("show", "mine")["failures"] == 0


def test_the_daemon_runs_until_it_is_stopped(cron: Cron, home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("by the daemon")]) as provider:
        write_config(home, provider.base_url)
        cron("add", "every 1h", "x", "--name", "mine", "--deliver", "file:out.md")
        make_due(home, "mine")
        daemon = start_hermes("cron", "daemon", home=home, cwd=workdir, stdout=PIPE, stderr=PIPE)
        try:
            wait_until((workdir / "out.md").exists)
            assert is_running(home)
            store = home_store(home)
            wait_until(lambda: Schedules(store).runs()[0].state == "completed")
            store.close()
        finally:
            daemon.send_signal(signal.SIGTERM)
            output, errors = daemon.communicate(timeout=60)
    assert daemon.returncode == 0, errors
    assert "runs with 1 active schedule" in output
    assert "mine done (written to" in output
    assert not is_running(home)


def test_a_daemon_that_is_killed_leaves_its_run_to_the_next_one(cron: Cron, home: Path, workdir: Path) -> None:
    with ScriptedProvider([hanging(), text("after the crash")]) as provider:
        write_config(home, provider.base_url)
        cron("add", "every 1h", "x", "--name", "mine", "--deliver", "file:out.md")
        make_due(home, "mine")
        first = start_hermes("cron", "daemon", home=home, cwd=workdir)
        try:
            wait_until(lambda: provider.requests)
        finally:
            first.kill()
            first.wait()
        assert not is_running(home)
        assert cron("tick").endswith("mine done (written to " + f"{workdir}/out.md)\n")
        assert cron("tick") == ""
    assert (workdir / "out.md").read_text() == "after the crash\n"
    (run,) = cron.json("history")
    assert run["state"] == "completed"
    exported = run_hermes("sessions", "export", run["session_id"], home=home, cwd=workdir).stdout
    records = [json.loads(line) for line in exported.splitlines()]
    (turn,) = [record for record in records if record["record"] == "turn"]
    assert (turn["state"], turn["attempts"]) == ("completed", 2)
    assert turn["request_key"].startswith(f"cron:{run['schedule_id']}:")
