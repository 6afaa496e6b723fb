"""What waits for the disk: a claim, an answer that is shown and the end of a turn; nothing else does."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

from hermes.agent.events import TurnResult
from hermes.base.errors import JournalError
from hermes.base.http.pool import Connection
from hermes.host import Host
from hermes.journal.store.sqlite import durability
from hermes.testing import ScriptedProvider, text, tool_call, tool_calls
from support import HostFactory
from support.waiting import wait_until


class Disk:
    """Takes the place of the system call: syncs can be held back, and are counted by the thread that asks for one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.real = durability.sync_file
        self.callers: list[str] = []
        self.may_sync = threading.Event()
        self.may_sync.set()
        monkeypatch.setattr(durability, "sync_file", self.sync)

    def sync(self, file: int) -> None:
        self.callers.append(threading.current_thread().name)
        assert self.may_sync.wait(60)
        self.real(file)

    def by(self, thread: str) -> int:
        return self.callers.count(thread)


@pytest.fixture
def disk(make_host: HostFactory, monkeypatch: pytest.MonkeyPatch) -> Generator[Disk]:
    """Freed before the hosts are closed."""
    made = Disk(monkeypatch)
    yield made
    made.may_sync.set()


def keys(host: Host, session_id: str) -> set[str]:
    """The keys of the recorded steps."""
    return {event["key"] for event in host.sessions.events(session_id)}


class Running(threading.Thread):
    """A turn on a thread of its own."""

    def __init__(self, host: Host) -> None:
        super().__init__(name="turn", daemon=True)
        self.session = host.new_session()
        self.result: TurnResult | None = None
        self.start()

    def run(self) -> None:
        self.result = self.session.run("Go")


def test_a_step_that_only_reads_waits_for_no_sync(make_host: HostFactory, workdir: Path, disk: Disk) -> None:
    """Every sync after the one that accepts the message hangs, and the steps go on all the same."""
    (workdir / "a.txt").write_text("alpha\n")
    read = tool_call("read_file", {"path": "a.txt"})
    search = tool_calls([("search_files", {"pattern": "alpha"}), ("read_file", {"path": "a.txt"})])
    accepted = threading.Event()

    def hold(**_: Any) -> None:
        disk.may_sync.clear()
        accepted.set()

    with ScriptedProvider([read, search, read, text("Done.")]) as provider:
        host = make_host(provider)
        host.hooks.subscribe("on_session_start", "holder", hold)
        turn = Running(host)
        assert accepted.wait(60)
        assert provider.wait_for_request(4).messages[-1]["role"] == "tool"
        assert turn.is_alive(), "the answer is not shown before it is on disk"
        calls = {"tool:1.0", "tool:2.0", "tool:2.1", "tool:3.0"}
        wait_until(lambda: calls < keys(host, turn.session.id), "the record of what a killed process must not lose")
        disk.may_sync.set()
        turn.join(60)
    assert turn.result is not None and turn.result.answer == "Done."


def test_the_record_of_a_step_is_written_while_the_next_answer_is_awaited(
    make_host: HostFactory, workdir: Path
) -> None:
    """Not before the request is sent, which would cost time, and not after its answer, which may take minutes."""
    (workdir / "a.txt").write_text("alpha\n")
    arrived, may_answer = threading.Event(), threading.Event()

    def answer(request: Any) -> Any:
        if request.step == 0:
            return tool_call("read_file", {"path": "a.txt"})
        arrived.set()
        assert may_answer.wait(60)
        return text("Done.")

    before: list[set[str]] = []
    send = Connection.send

    def look(connection: Connection, *arguments: Any) -> Any:
        before.append(keys(host, turn.session.id))
        return send(connection, *arguments)

    with ScriptedProvider(answer) as provider, pytest.MonkeyPatch.context() as patch:
        host = make_host(provider)
        patch.setattr(Connection, "send", look)
        turn = Running(host)
        assert arrived.wait(60)
        wait_until(lambda: {"model:1", "tool:1.0"} < keys(host, turn.session.id), "the record of the first step")
        may_answer.set()
        turn.join(60)
    assert turn.result is not None and turn.result.answer == "Done."
    assert "setup" in before[0], "a new connection takes its time, and so the record comes first"
    assert "model:1" not in before[1]


@pytest.mark.parametrize("hook", ["pre_api_request", "llm_request", "llm_execution"])
def test_plugins_that_see_a_request_find_everything_before_it_on_record(
    make_host: HostFactory, workdir: Path, hook: str
) -> None:
    """They may take their time, and a process may be killed meanwhile."""
    (workdir / "a.txt").write_text("alpha\n")
    seen: list[set[str]] = []

    def look(*arguments: Any, **values: Any) -> Any:
        seen.append(keys(host, values["session_id"]))
        if hook == "llm_execution":
            return values["next_call"](*arguments) if arguments else values["next_call"](values["request"])
        return None

    with ScriptedProvider([tool_call("read_file", {"path": "a.txt"}), text("Done.")]) as provider:
        host = make_host(provider)
        if hook == "pre_api_request":
            host.hooks.subscribe("pre_api_request", "watcher", look)
        else:
            host.hooks.add_middleware(hook, "watcher", look)
        assert host.new_session().run("Go").answer == "Done."
    assert {"model:1", "tool:1.0"} < seen[1]


def test_a_journal_that_cannot_be_written_while_a_request_is_out_ends_the_turn_in_order(
    make_host: HostFactory, workdir: Path
) -> None:
    (workdir / "a.txt").write_text("alpha\n")
    with ScriptedProvider([tool_call("read_file", {"path": "a.txt"}), text("never shown")]) as provider:
        host = make_host(provider)
        ends: list[str] = []

        def end(**values: Any) -> None:
            ends.append(values["reason"])

        def fill(**_: Any) -> None:
            vars(host.store)["_damage"] = JournalError("the disk is full")

        host.hooks.subscribe("post_tool_call", "filler", fill)
        host.hooks.subscribe("api_request_error", "watcher", end)
        with pytest.raises(JournalError, match="the disk is full"):
            host.new_session().run("Go")
    assert ends == ["error"], "the attempt that began is closed"


def test_an_effect_starts_once_its_claim_is_on_disk(make_host: HostFactory, workdir: Path, disk: Disk) -> None:
    kinds: list[list[str]] = []
    counts: list[tuple[int, int]] = []
    with ScriptedProvider([tool_call("terminal", {"command": "echo ran >> effects.log"}), text("Done.")]) as provider:
        host = make_host(provider)
        session = host.new_session()

        def look(args: dict[str, Any], next_call: Any, **_: Any) -> Any:
            log = cast("dict[str, int]", vars(vars(host.store)["_log"]))
            counts.append((log["_synced"], log["written"]))
            kinds.append([event["kind"] for event in host.sessions.events(session.id)])
            return next_call(args)

        host.hooks.add_middleware("tool_execution", "watcher", look)
        assert session.run("Go").answer == "Done."
    assert kinds == [["turn_started", "step_done", "step_done", "step_claimed"]]
    assert [synced == written for synced, written in counts] == [True]
    assert (workdir / "effects.log").read_text() == "ran\n"


def test_the_result_of_an_effect_is_brought_to_the_disk_while_the_next_answer_is_awaited(
    make_host: HostFactory, workdir: Path
) -> None:
    may_answer = threading.Event()

    def answer(request: Any) -> Any:
        if request.step == 0:
            return tool_call("terminal", {"command": "true"})
        assert may_answer.wait(60)
        return text("Done.")

    def is_synced() -> bool:
        log = cast("dict[str, int]", vars(vars(host.store)["_log"]))
        return log["_synced"] == log["written"] and "tool:1.0" in keys(host, turn.session.id)

    with ScriptedProvider(answer) as provider:
        host = make_host(provider, allow_everything=True)
        turn = Running(host)
        provider.wait_for_request(2)
        wait_until(is_synced, "the sync of the result")
        may_answer.set()
        turn.join(60)
    assert turn.result is not None and turn.result.answer == "Done."


def test_the_log_names_an_answer_while_its_command_runs(make_host: HostFactory, workdir: Path) -> None:
    """The line is written once the command has started: it delays none, and none delays it."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger, kept = logging.getLogger("hermes"), Kept()
    level = logger.level
    logger.addHandler(kept)
    logger.setLevel("INFO")
    try:
        command = "until [ -e go ]; do sleep 0.01; done"
        with ScriptedProvider([tool_call("terminal", {"command": command}), text("Done.")]) as provider:
            turn = Running(make_host(provider, allow_everything=True))
            try:
                wait_until(lambda: any("answered by" in line for line in lines), "the line about the answer")
            finally:
                (workdir / "go").touch()
                turn.join(60)
    finally:
        logger.removeHandler(kept)
        logger.setLevel(level)
    assert turn.result is not None and turn.result.answer == "Done."


def test_a_reply_and_the_claims_of_its_calls_are_one_transaction(make_host: HostFactory, workdir: Path) -> None:
    commits: list[int] = []
    with ScriptedProvider([tool_call("terminal", {"command": "true"}), text("Done.")]) as provider:
        host = make_host(provider)

        def count(**_: Any) -> None:
            commits.append(vars(host.store)["_commits"])

        host.hooks.subscribe("post_api_request", "counter", count)
        host.hooks.subscribe("post_tool_call", "counter", count)
        host.new_session().run("Go")
    replied, ended = commits[:2]
    assert ended - replied == 2, "reply and claim, then the result"


def test_how_many_syncs_a_turn_asks_for_itself(make_host: HostFactory, workdir: Path, disk: Disk) -> None:
    """With a disk that is never slow: one for the message, one for each claim, one for the answer."""
    (workdir / "a.txt").write_text("alpha\n")
    read = tool_call("read_file", {"path": "a.txt"})
    run = tool_call("terminal", {"command": "true"})
    with ScriptedProvider([read, run, read, run, text("Done.")]) as provider:
        host = make_host(provider, allow_everything=True)
        turn = Running(host)
        turn.join(60)
    assert turn.result is not None and turn.result.answer == "Done."
    # A sync that the thread beside it did in time need not be done again.
    assert 1 <= disk.by("turn") <= 4


def test_a_disk_that_fails_later_stops_the_turn_before_the_next_effect(
    make_host: HostFactory, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = threading.Event()
    real = durability.sync_file

    def sync(file: int) -> None:
        if fails.is_set():
            raise OSError(5, os.strerror(5))
        real(file)

    def break_it(**_: Any) -> None:
        fails.set()

    monkeypatch.setattr(durability, "sync_file", sync)
    (workdir / "a.txt").write_text("alpha\n")
    calls = [tool_call("read_file", {"path": "a.txt"}), tool_call("terminal", {"command": "touch effect"}), text("no")]
    with ScriptedProvider(calls) as provider:
        host = make_host(provider, allow_everything=True)
        host.hooks.subscribe("post_tool_call", "saboteur", break_it)
        with pytest.raises(JournalError, match="Input/output error"):
            host.new_session().run("Go")
    assert not (workdir / "effect").exists()
