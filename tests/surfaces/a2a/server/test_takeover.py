"""``a2a.db`` of former versions goes into the journal: whole, once, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.types import GetTaskRequest, Task, TaskPushNotificationConfig, TaskState, TaskStatus

from hermes.base.config import Config
from hermes.base.config.schema.sections import JournalConfig
from hermes.base.errors import HermesError
from hermes.base.http_server.principals import Principal
from hermes.host import Host, HostOptions
from hermes.surfaces.a2a.server.access.middleware import PrincipalUser
from hermes.surfaces.a2a.server.store.takeover import take_over
from hermes.testing import ScriptedProvider, text
from support.a2a_old_file import NEWEST, move_to_old_file, write_old_file
from support.a2a_rig import artifact_text, calling, said, send, served
from support.a2a_tables import A2ATables

ALICE = ServerCallContext(user=PrincipalUser(Principal("alice")))
DONE = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
HOOK = TaskPushNotificationConfig(task_id="t", id="h", url="https://a.example")
ROWS: Any = {
    "tasks": [("alice", "t", "c", int(DONE.status.state), 1, DONE.SerializeToString())],
    "contexts": [("alice", "c", "s")],
    "webhooks": [("alice", "t", "h", HOOK.SerializeToString(), "0.3")],
    "messages": [("alice", "c", "m", b"digest", "t")],
}
TABLES = ("a2a_tasks", "a2a_contexts", "a2a_webhooks", "a2a_messages")


def counts(host: Host) -> list[int]:
    queries = [f"SELECT count(*) FROM {table}" for table in TABLES]
    return host.store.read(lambda connection: [connection.execute(query).fetchone()[0] for query in queries])


def opened(home: Path, workdir: Path, url: str = "") -> Host:
    return Host(home, Config(journal=JournalConfig(url=url)), HostOptions(), cwd=workdir, env={})


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_file_of_every_version_is_taken_over_once(home: Path, workdir: Path, version: int) -> None:
    write_old_file(home, version=version, **ROWS)
    with opened(home, workdir) as host:
        take_over(host)
        assert not (home / "a2a.db").exists() and (home / "a2a.db.migrated").exists()
        assert counts(host) == [1, 1, 1, int(version == NEWEST)]
        tables = A2ATables(host.store)
        webhooks = tables.webhooks()
        stored = asyncio.run(tables.tasks().find("t", "alice"))
        assert stored is not None and (stored.task, stored.runner) == (DONE, "")
        assert asyncio.run(webhooks.get_info("t", ALICE)) == [HOOK]
        assert webhooks.is_old(HOOK) == (version == NEWEST)
        take_over(host)
        assert counts(host) == [1, 1, 1, int(version == NEWEST)]
        tables.workers.close()


def test_a_file_goes_into_the_shared_journal(home: Path, workdir: Path, postgres_url: str) -> None:
    write_old_file(home, **ROWS)
    with opened(home, workdir, postgres_url) as host:
        take_over(host)
        assert counts(host) == [1, 1, 1, 1] and not (home / "a2a.db").exists()


def test_a_file_that_was_made_and_never_used(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / "a2a.db").touch()
    with opened(home, workdir) as host:
        take_over(host)
        assert counts(host) == [0, 0, 0, 0] and not (home / "a2a.db").exists()


def test_a_file_that_cannot_be_read_is_left_alone(home: Path, workdir: Path) -> None:
    path = write_old_file(home, **ROWS)
    whole = path.read_bytes()
    broken = {
        "move it aside": b"no database at all" * 100,
        "malformed": whole[:4096] + b"\xff" * (len(whole) - 4096),
        "newer version": whole[:60] + (99).to_bytes(4, "big") + whole[64:],
    }
    with opened(home, workdir) as host:
        for problem, content in broken.items():
            path.write_bytes(content)
            with pytest.raises(HermesError, match=problem):
                take_over(host)
            assert path.read_bytes() == content and counts(host) == [0, 0, 0, 0], problem
        path.write_bytes(whole)
        take_over(host)
        assert counts(host) == [1, 1, 1, 1]


def test_two_servers_that_start_at_once_take_it_over_once(home: Path, workdir: Path) -> None:
    write_old_file(home, **ROWS)
    with opened(home, workdir) as one, opened(home, workdir) as two, ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(take_over, host) for host in (one, two)]:
            done.result()
        assert counts(one) == [1, 1, 1, 1] and not (home / "a2a.db").exists()


@pytest.mark.parametrize("point", range(1, 6))
def test_a_process_that_dies_meanwhile_leaves_the_old_or_the_new_state(home: Path, workdir: Path, point: int) -> None:
    write_old_file(home, **ROWS)
    program = (
        "import sys; from pathlib import Path; from hermes.host import Host, HostOptions\n"
        "from hermes.base.config import Config; from hermes.surfaces.a2a.server.store.takeover import take_over\n"
        "home, work = map(Path, sys.argv[1:])\n"
        "with Host(home, Config(), HostOptions(), cwd=work, env={}) as host: take_over(host)\n"
    )
    command = [sys.executable, "-c", program, str(home), str(workdir)]
    subprocess.run(command, env={"HERMES_CRASH_AT": str(point)}, check=False, timeout=60, capture_output=True)
    with opened(home, workdir) as host:
        left = counts(host)
        assert left == [1, 1, 1, 1] or (left == [0, 0, 0, 0] and (home / "a2a.db").exists())
        take_over(host)
        assert counts(host) == [1, 1, 1, 1] and not (home / "a2a.db").exists()


def test_tasks_and_conversations_of_a_former_version_go_on(home: Path, workdir: Path) -> None:
    async def begin() -> Task:
        async with calling(agent, streaming=False) as client:
            return await send(client, said("first"))

    async def go_on() -> None:
        async with calling(agent, streaming=False) as client:
            assert artifact_text(await client.get_task(GetTaskRequest(id=task.id))) == "one"
            assert artifact_text(await send(client, said("second", context_id=task.context_id))) == "two"

    with ScriptedProvider([text("one"), text("two")]) as provider:
        with served(home, workdir, provider) as agent:
            task = asyncio.run(begin())
        move_to_old_file(home)
        with served(home, workdir, provider) as agent:
            asyncio.run(go_on())
        assert [message["content"] for message in provider.requests[-1].messages if message["role"] == "user"] == [
            "first",
            "second",
        ]
