"""One runner per session: the living are left alone, the dead replaced, and the replaced write nothing more."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes.base.errors import HermesError, JournalError, LeaseLost, SessionBusy
from hermes.journal import runner as runner_module
from hermes.journal.runner import FileRunner, Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.port import Store
from hermes.journal.turns.lifecycle import reopen_turn
from hermes.journal.turns.steps import TurnJournal
from journal.kit import PYTHON_PATH, FileRunnerFactory, RunnerFactory, StoreFactory, finish_turn, rows, start_turn
from support.waiting import HANG, wait_for, wait_until

pytestmark = pytest.mark.both_stores

OWNER = """
import os, sys
from journal.kit import journal_at, start_turn
store = journal_at(sys.argv[1])
runner = store.new_runner()
turn = start_turn(store, runner)
os.write(1, b"ready")
os.read(0, 1)
"""


@contextmanager
def other_process(address: str) -> Generator[subprocess.Popen[bytes]]:
    """A process that runs session ``s1`` until it is told to end."""
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, "-c", OWNER, address]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.read(5) == b"ready"
            yield process
        finally:
            process.kill()


def ownership(store: Store) -> tuple[str, int]:
    return rows(store, "SELECT runner, epoch FROM sessions")[0]


def test_a_living_runner_is_left_alone_and_named(store: Store, runner: Runner, journal_address: str) -> None:
    with other_process(journal_address) as process:
        for take in (lambda: start_turn(store, runner), lambda: reopen(store, runner)):
            with pytest.raises(SessionBusy) as caught:
                take()
            assert f"session s1 is in use by process {process.pid} on {os.uname().nodename} since 2" in str(
                caught.value
            )
        with pytest.raises(SessionBusy):
            Sessions(store).delete("s1", runner)
        assert ownership(store)[1] == 1


def test_the_session_of_a_killed_process_is_taken_over(store: Store, runner: Runner, journal_address: str) -> None:
    with other_process(journal_address) as process:
        process.kill()
        process.wait()
        dead, epoch = ownership(store)
        if isinstance(runner, FileRunner):
            assert (runner.folder / dead).exists()
        else:
            wait_until(lambda: not runner.is_alive(dead), "the server has noticed")
        turn = reopen(store, runner)
    assert turn is not None and turn.state == "running"
    assert ownership(store) == (runner.id, epoch + 1)
    if isinstance(runner, FileRunner):
        assert not (runner.folder / dead).exists(), "the file of a dead runner is swept away"


def test_a_runner_that_was_replaced_writes_nothing_more(
    store: Store, open_store: StoreFactory, new_runner: RunnerFactory
) -> None:
    zombie_runner, taker = new_runner(), new_runner()
    zombie = start_turn(store, zombie_runner)
    zombie_runner.close()  # its lock is gone, as if the kernel had ended it, yet it goes on
    heir = reopen(open_store(), taker)
    assert heir is not None
    before = rows(store, "SELECT * FROM events") + rows(store, "SELECT * FROM turns")
    zombie.step("setup", "done", "pure", {})
    zombie.message(1, 0, {"role": "assistant", "content": "too late"})
    zombie.end("completed", answer="too late")
    for _ in range(2):
        with pytest.raises(LeaseLost, match="session s1 was taken over or deleted by another process"):
            zombie.commit()
    assert rows(store, "SELECT * FROM events") + rows(store, "SELECT * FROM turns") == before
    heir.step("setup", "done", "pure", {"by": "the heir"})
    finish_turn(heir)
    assert rows(store, "SELECT state, answer FROM turns") == [("completed", "done")]


def test_what_an_earlier_turn_left_running_cannot_write_into_the_next(store: Store, runner: Runner) -> None:
    first = start_turn(store, runner)
    finish_turn(first)
    second = start_turn(store, runner)
    first.step("tool:1.0", "done", "unsafe", {"late": True})
    with pytest.raises(LeaseLost):
        first.commit()
    second.step("setup", "done", "pure", {})
    second.commit()


def test_reopening_in_the_same_process_ends_the_first_writer(store: Store, runner: Runner) -> None:
    first = start_turn(store, runner)
    second = reopen(store, runner)
    assert second is not None
    first.event("note", "", 1)
    with pytest.raises(LeaseLost):
        first.commit()
    finish_turn(second)


def test_of_two_takers_one_wins(
    store: Store, open_store: StoreFactory, new_runner: RunnerFactory, journal_path: Path
) -> None:
    dead = new_runner()
    start_turn(store, dead)
    dead.close()
    takers = [(open_store(), new_runner()) for _ in range(6)]
    barrier = threading.Barrier(len(takers))
    outcomes: list[TurnJournal | HermesError | None] = []

    def take(store: Store, runner: Runner) -> None:
        barrier.wait()
        try:
            outcomes.append(reopen(store, runner))
        except HermesError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=take, args=taker) for taker in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [outcome for outcome in outcomes if isinstance(outcome, TurnJournal)]
    assert len(winners) == 1
    assert sum(isinstance(outcome, SessionBusy) for outcome in outcomes) == 5
    assert ownership(store)[1] == 2
    assert rows(store, "SELECT attempts FROM turns") == [(2,)]


def test_a_deleted_session_cannot_be_written(store: Store, runner: Runner) -> None:
    turn = start_turn(store, runner)
    Sessions(store).delete("s1", runner)
    turn.event("note", "", 1)
    with pytest.raises(LeaseLost):
        turn.commit()
    assert rows(store, "SELECT * FROM events") == []


# -- runners -----------------------------------------------------------------------------------------------------------


@pytest.mark.sqlite_only
def test_a_runner_file_appears_with_the_first_session_and_goes_with_the_runner(tmp_path: Path) -> None:
    runner = FileRunner(tmp_path / "runners")
    assert not (tmp_path / "runners").exists()
    runner.start()
    file = tmp_path / "runners" / runner.id
    assert file.stat().st_mode & 0o777 == 0o600
    runner.close()
    assert not file.exists()


@pytest.mark.sqlite_only
def test_threads_that_start_a_runner_at_once_share_it(runner: Runner, tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        runner.start()

    threads = [threading.Thread(target=start, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert [file.name for file in (tmp_path / "journal" / "runners").iterdir()] == [runner.id]


@pytest.mark.sqlite_only
def test_those_who_ask_at_once_do_not_take_each_other_for_the_owner(new_runner: RunnerFactory, tmp_path: Path) -> None:
    folder = tmp_path / "journal" / "runners"
    folder.mkdir(parents=True)
    askers = [new_runner() for _ in range(4)]
    for number in range(20):
        (folder / f"dead{number}").touch()
        barrier = threading.Barrier(len(askers))
        answers: list[bool] = []

        def ask(asker: Runner, barrier: threading.Barrier = barrier, number: int = number) -> None:
            barrier.wait()
            answers.append(asker.is_alive(f"dead{number}"))  # noqa: B023  (joined before the next round)

        threads = [threading.Thread(target=ask, args=(asker,)) for asker in askers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [False] * 4


@pytest.mark.sqlite_only
def test_a_runner_that_cannot_be_asked_about_is_not_taken_for_dead(
    store: Store, new_runner: FileRunnerFactory, journal_path: Path
) -> None:
    owner, other = new_runner(), new_runner()
    start_turn(store, owner)
    file = owner.folder / owner.id
    file.unlink()
    file.symlink_to(file)
    with pytest.raises(JournalError, match="Too many levels of symbolic links"):
        start_turn(store, other)
    assert ownership(store) == (owner.id, 1)


@pytest.mark.sqlite_only
def test_a_runner_whose_note_is_unreadable_is_still_alive(new_runner: FileRunnerFactory) -> None:
    owner, other = new_runner(), new_runner()
    owner.start()
    (owner.folder / owner.id).write_bytes(b"\xff")
    assert other.is_alive(owner.id)
    assert other.describe(owner.id) == "another process"
    assert other.describe("nobody") == "another process"


def reopen(store: Store, runner: Runner) -> TurnJournal | None:
    return reopen_turn(store, runner, "s1", states=("running",))


@pytest.mark.sqlite_only
def test_a_lock_that_a_started_process_still_holds_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that is killed while it starts a command leaves its lock to that process for a moment."""
    monkeypatch.setattr(runner_module, "SECONDS_TO_RELEASE", HANG)
    dead = subprocess.Popen(["true"])
    dead.wait()
    left = tmp_path / "left"
    with left.open("w") as file:
        file.write(f'{{"pid": {dead.pid}, "host": "{os.uname().nodename}", "since": "now"}}')
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        started = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(file.fileno(),))
    asked = threading.Event()

    def ask() -> bool:
        asked.set()
        return FileRunner(tmp_path).is_alive("left")

    with ThreadPoolExecutor() as pool:
        answer = pool.submit(ask)
        wait_for(asked)
        started.communicate()
        assert answer.result(HANG) is False
    assert not left.exists()


@pytest.mark.sqlite_only
def test_a_lock_of_a_living_process_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "SECONDS_TO_RELEASE", HANG * 10)
    owner = FileRunner(tmp_path)
    owner.start()
    try:
        assert FileRunner(tmp_path).is_alive(owner.id)
    finally:
        owner.close()
