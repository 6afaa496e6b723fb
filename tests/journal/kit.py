"""What the tests of the journal share."""

from __future__ import annotations

import functools
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hermes.base.config.schema.sections import JournalConfig
from hermes.journal.leases import SessionInfo
from hermes.journal.runner import FileRunner, Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store, open_store
from hermes.journal.turns.lifecycle import begin_turn
from hermes.journal.turns.steps import Message, TurnJournal
from support.waiting import wait_until

StoreFactory = Callable[[], Store]
RunnerFactory = Callable[[], Runner]
FileRunnerFactory = Callable[[], FileRunner]

#: Where a process of its own finds the runtime and these tests.
PYTHON_PATH = os.pathsep.join(str(Path(__file__).parents[2] / folder) for folder in ("src", "tests"))


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def assistant(content: Any) -> Message:
    return {"role": "assistant", "content": content}


def start_turn(
    store: Store,
    runner: Runner,
    session: str | SessionInfo = "s1",
    *,
    message: Message | None = None,
    turn_id: str = "",
    request_key: str = "",
) -> TurnJournal:
    """Accept a message, with ids made up where none are given."""
    info = session if isinstance(session, SessionInfo) else SessionInfo(session, "/home/you/desk")
    turn_id = turn_id or f"{info.id}:turn:{os.urandom(4).hex()}"
    return begin_turn(
        store,
        runner,
        info,
        turn_id=turn_id,
        task_id=f"task of {turn_id}",
        request_key=request_key or turn_id,
        message=message or user("hello"),
    )


def finish_turn(turn: TurnJournal, answer: str = "done") -> None:
    turn.message(1, 0, assistant(answer))
    turn.end("completed", answer=answer)
    turn.commit()


def rows(where: Path | Store, query: str, *values: object) -> list[Any]:
    """What the journal holds: a file, as another program would see it, or that of a store."""
    if isinstance(where, Store):
        return where.read(lambda connection: connection.execute(query, values).fetchall())
    with closing(sqlite3.connect(where)) as connection:
        return connection.execute(query, values).fetchall()


def journal_at(address: str) -> Store:
    """The journal in a folder, or in a database."""
    is_url = address.startswith("postgresql:")
    return open_store(Path() if is_url else Path(address), JournalConfig(url=address if is_url else ""))


def insert_session(connection: JournalConnection, session_id: str) -> str:
    """The smallest row that can be written, for tests of the store alone."""
    connection.execute(
        "INSERT INTO sessions (id, platform, cwd, created_at, updated_at) VALUES (?, 'test', '/', 0, 0)", (session_id,)
    )
    return session_id


def session_ids(where: Path | Store) -> list[str]:
    return [row[0] for row in rows(where, "SELECT id FROM sessions ORDER BY id")]


class Caller(threading.Thread):
    """One thread that writes, and what came back to it."""

    def __init__(self, store: Store, work: Callable[[JournalConnection], Any]) -> None:
        super().__init__(daemon=True)
        self._store, self._work = store, work
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._store.write(self._work)
        except BaseException as error:
            self.error = error


@contextmanager
def one_batch(store: Store, *works: Callable[[JournalConnection], Any]) -> Generator[list[Caller]]:
    """Have the works wait behind a write that is under way, so that they are committed together when the block ends."""
    started, may_end = threading.Event(), threading.Event()

    def hold(_: JournalConnection) -> None:
        started.set()
        may_end.wait(60)

    holder = Caller(store, hold)
    holder.start()
    assert started.wait(60)
    callers: list[Caller] = []
    for count, work in enumerate(works, 1):
        callers.append(Caller(store, work))
        callers[-1].start()
        wait_until(lambda count=count: len(vars(store)["_waiting"]) == count, "the writer has queued up")
    try:
        yield callers
    finally:
        may_end.set()
        for thread in (holder, *callers):
            thread.join(60)
    assert not any(thread.is_alive() for thread in (holder, *callers))


def python(script: str, *arguments: str, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a few lines in a process of their own."""
    return subprocess.run(
        [*wrapper, sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@functools.cache
def can_mount() -> bool:
    """Whether a process may mount file systems in a name space of its own, as root can and many users can too."""
    probe = ["unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(probe, capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False


def in_own_mounts(command: str, folder: Path) -> tuple[str, ...]:
    """The wrapper that runs a program after ``command`` has mounted something over ``folder``."""
    script = f'{command}; exec "$@"'
    return ("unshare", "--map-root-user", "--mount", "sh", "-ec", script.replace("FOLDER", f"'{folder}'"), "sh")
