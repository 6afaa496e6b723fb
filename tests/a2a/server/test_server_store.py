"""What is kept of tasks, and what a server finds when it starts."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest
from a2a.server.context import ServerCallContext
from a2a.types import (
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    Part,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import InvalidParamsError

from hermes.a2a.server.access.user import PrincipalUser
from hermes.a2a.server.store import database as database_module
from hermes.a2a.server.store.database import Database
from hermes.a2a.server.store.tasks import SqliteTaskStore, delete_old
from hermes.a2a.server.store.webhooks import MAX_WEBHOOKS, SqlitePushConfigStore
from hermes.errors import HermesError
from hermes.http_server.principals import Principal
from hermes.testing import ScriptedProvider, hanging, text
from support.a2a_rig import artifact_text, calling, said, send, served, state_name, wire_message

ALICE = ServerCallContext(user=PrincipalUser(Principal("alice")))
BOB = ServerCallContext(user=PrincipalUser(Principal("bob")))
WORKING, FAILED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_FAILED
COMPLETED = TaskState.TASK_STATE_COMPLETED


@pytest.fixture
def database(home: Path) -> Generator[Database]:
    made = Database(home / "a2a.db")
    yield made
    made.close()


def task(name: str, state: TaskState = COMPLETED, *, at: float = 0.0, context_id: str = "c") -> Task:
    made = Task(id=name, context_id=context_id, status=TaskStatus(state=state))
    if at:
        made.status.timestamp.FromNanoseconds(int(at * 1e9))
    return made


def test_chunks_are_joined_and_written_with_the_next_status(database: Database) -> None:
    async def run() -> None:
        store = SqliteTaskStore(database)
        made = task("t", WORKING)
        await store.save(made, ALICE)
        for piece in "abc":
            if not made.artifacts:
                made.artifacts.append(Artifact(artifact_id="a"))
            made.artifacts[0].parts.append(Part(text=piece))
            await store.save(made, ALICE)
        known = await store.get("t", ALICE)
        assert known is not None and [part.text for part in known.artifacts[0].parts] == ["abc"]
        assert await SqliteTaskStore(database).get("t", ALICE) == task("t", WORKING)
        made.status.state = COMPLETED
        await store.save(made, ALICE)
        written = await SqliteTaskStore(database).get("t", ALICE)
        assert written is not None and written == made and artifact_text(written) == "abc"
        assert await store.get("t", BOB) is None
        await store.delete("t", BOB)
        assert await store.get("t", ALICE) is not None
        await store.delete("t", ALICE)
        assert await store.get("t", ALICE) is None

    asyncio.run(run())


def test_a_task_from_the_store_is_a_copy(database: Database) -> None:
    async def run() -> None:
        store = SqliteTaskStore(database)
        await store.save(task("t", WORKING), ALICE)
        first = await store.get("t", ALICE)
        assert first is not None
        first.context_id = "changed"
        second = await store.get("t", ALICE)
        assert second is not None and second.context_id == "c"

    asyncio.run(run())


def test_pagination_lists_every_task_once(database: Database) -> None:
    async def run() -> None:
        store = SqliteTaskStore(database)
        made = [task(f"t{number}", at=1_000 + number // 3) for number in range(10)] + [task("u1"), task("u2")]
        for one in made:
            await store.save(one, ALICE)
        await store.save(task("other"), BOB)
        seen: list[str] = []
        token = ""
        while True:
            page = await store.list(ListTasksRequest(page_size=3, page_token=token), ALICE)
            assert page.total_size == 12
            seen += [found.id for found in page.tasks]
            token = page.next_page_token
            if not token:
                break
        assert seen == [f"t{number}" for number in range(9, -1, -1)] + ["u2", "u1"]
        with pytest.raises(InvalidParamsError):
            await store.list(ListTasksRequest(page_token="nonsense"), ALICE)

    asyncio.run(run())


def test_webhooks_are_kept_by_owner(database: Database) -> None:
    async def run() -> None:
        store = SqlitePushConfigStore(database)
        first = await store.set_info("t", TaskPushNotificationConfig(url="https://a.example"), ALICE)
        assert (first.task_id, first.id) == ("t", "t")
        await store.set_info("t", TaskPushNotificationConfig(id="2", url="https://b.example"), ALICE)
        await store.set_info("t", TaskPushNotificationConfig(id="2", url="https://c.example"), ALICE)
        await store.set_info("t", TaskPushNotificationConfig(id="2", url="https://d.example"), BOB)
        assert [one.url for one in await store.get_info("t", ALICE)] == ["https://c.example", "https://a.example"]
        assert len(await store.get_info_for_dispatch("t")) == 3
        await store.delete_info("t", ALICE, "2")
        assert [one.url for one in await store.get_info_for_dispatch("t")] == ["https://d.example", "https://a.example"]
        await store.delete_info("t", ALICE)
        assert [one.url for one in await store.get_info_for_dispatch("t")] == ["https://d.example"]

    asyncio.run(run())


def test_tasks_that_ended_long_ago_are_deleted_and_those_left_open_are_found(database: Database) -> None:
    now = time.time()
    tasks = [
        task("working", WORKING, at=now),
        task("submitted", TaskState.TASK_STATE_SUBMITTED, at=now),
        task("parked", TaskState.TASK_STATE_INPUT_REQUIRED, at=now),
        task("new", COMPLETED, at=now),
        task("old", COMPLETED, at=now - 40 * 86_400),
        task("old but parked", TaskState.TASK_STATE_INPUT_REQUIRED, at=now - 40 * 86_400),
    ]

    async def fill() -> None:
        store = SqliteTaskStore(database)
        for one in tasks:
            await store.save(one, ALICE)
        await SqlitePushConfigStore(database).set_info("old", TaskPushNotificationConfig(url="https://a"), ALICE)

    async def states() -> dict[str, str]:
        page = await SqliteTaskStore(database).list(ListTasksRequest(page_size=100), ALICE)
        assert await SqlitePushConfigStore(database).get_info_for_dispatch("old") == []
        return {found.id: state_name(found.status.state) for found in page.tasks}

    async def left() -> list[tuple[str, str]]:
        return [(owner, one.id) for owner, one in await SqliteTaskStore(database).not_ended()]

    asyncio.run(fill())
    delete_old(database, 30)
    assert asyncio.run(states()) == {
        "working": "working",
        "submitted": "submitted",
        "parked": "input_required",
        "new": "completed",
        "old but parked": "input_required",
    }
    # Those that had begun first: the others wait for them when they share a conversation.
    assert asyncio.run(left()) == [("alice", one) for one in ("old but parked", "parked", "working", "submitted")]


def test_a_file_of_a_newer_program_is_left_alone(home: Path) -> None:
    Database(home / "a2a.db").close()
    assert stat.S_IMODE((home / "a2a.db").stat().st_mode) == 0o600
    with closing(sqlite3.connect(home / "a2a.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(HermesError, match="newer version"):
        Database(home / "a2a.db")
    (home / "a2a.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(HermesError, match="move it aside"):
        Database(home / "a2a.db")


def test_a_file_of_every_older_version_opens(home: Path) -> None:
    home.mkdir()
    migrations = database_module._MIGRATIONS  # pyright: ignore[reportPrivateUsage]
    for version in range(1, len(migrations)):
        path = home / f"{version}.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(f"{''.join(migrations[:version])} PRAGMA user_version = {version};")
            row = ("alice", "t", "c", int(COMPLETED), 1, task("t").SerializeToString())
            connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?)", row)
            connection.commit()
        for _ in range(2):  # the second time there is nothing to change
            with closing(Database(path)) as database:
                assert asyncio.run(SqliteTaskStore(database).get("t", ALICE)) == task("t")


def test_a_restarted_server_has_its_tasks_and_conversations(home: Path, workdir: Path) -> None:
    """What was at work is finished without its caller, and the conversation continues after it."""

    async def leave() -> Task:
        agent.rpc("SendMessage", {**wire_message("slow"), "configuration": {"returnImmediately": True}})
        await asyncio.to_thread(provider.wait_for_request)
        async with calling(agent, streaming=False) as client:
            [found] = (await client.list_tasks(ListTasksRequest())).tasks
            return found

    async def come_back() -> None:
        async with calling(agent, streaming=False) as client:
            after = await send(client, said("and now?", context_id=found.context_id))
            assert artifact_text(after) == "fine"
            left = await client.get_task(GetTaskRequest(id=found.id))
            assert state_name(left.status.state) == "completed" and artifact_text(left) == "slow answer"

    with ScriptedProvider([hanging(), text("slow answer"), text("fine")]) as provider:
        with served(home, workdir, provider) as agent:
            found = asyncio.run(leave())
        _put_back(home, found)
        with served(home, workdir, provider) as agent:
            asyncio.run(come_back())
        words = [message["content"] for message in provider.requests[-1].messages if message["role"] == "user"]
        assert words == ["slow", "and now?"] and len(provider.requests) == 3


def _put_back(home: Path, left: Task) -> None:
    """Make it look as if the server had been killed in the middle of its work."""
    with closing(sqlite3.connect(home / "a2a.db")) as connection, connection:
        values = (int(WORKING), left.SerializeToString(), left.id)
        connection.execute("UPDATE tasks SET state = ?, body = ? WHERE id = ?", values)
    with closing(sqlite3.connect(home / "state.db")) as connection, connection:
        connection.execute("UPDATE turns SET state = 'running', ended_at = NULL, error = NULL")


def test_a_new_task_does_not_wait_for_the_batch_of_writes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_SECONDS_TO_BATCH", 3_600.0)

    async def run() -> None:
        store = SqliteTaskStore(database)
        await store.save(task("done"), ALICE)  # this one waits for it
        await store.save(task("t", WORKING), ALICE)
        with closing(sqlite3.connect(database.path)) as other:  # it sees what is committed
            async with asyncio.timeout(20):
                while not other.execute("SELECT 1 FROM tasks WHERE id = 't'").fetchall():
                    await asyncio.sleep(0.005)

    asyncio.run(run())


def test_a_question_is_on_disk_before_its_caller_gets_it(database: Database) -> None:
    async def run() -> None:
        store = SqliteTaskStore(database)
        made = task("t", WORKING)
        await store.save(made, ALICE)
        made.status.state = TaskState.TASK_STATE_INPUT_REQUIRED
        await store.save(made, ALICE)
        with closing(sqlite3.connect(database.path)) as other:  # it sees what is committed
            [(state,)] = other.execute("SELECT state FROM tasks").fetchall()
        assert state == TaskState.TASK_STATE_INPUT_REQUIRED

    asyncio.run(run())


def test_a_commit_that_fails_leaves_the_file_usable(database: Database) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")  # as SQLite does by itself when the disk is full

    with pytest.raises(sqlite3.OperationalError, match="no transaction is active"):
        database.transact(fail)
    assert database.transact(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


def test_what_a_full_disk_kept_from_being_stored_is_stored_later(database: Database) -> None:
    def fail(_connection: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def run() -> None:
        store = SqliteTaskStore(database)
        await store.save(task("t", WORKING), ALICE)
        with pytest.raises(sqlite3.OperationalError):
            await database.run(fail)
        made = task("t", WORKING)
        made.status.state = TaskState.TASK_STATE_FAILED
        await store.save(task("other"), ALICE)
        await store.save(made, ALICE)  # newer than what failed
        with pytest.raises(sqlite3.OperationalError):
            await database.run(fail)

    asyncio.run(run())
    stored = database.transact(lambda connection: connection.execute("SELECT id, state FROM tasks").fetchall())
    assert dict(stored) == {"t": TaskState.TASK_STATE_FAILED, "other": TaskState.TASK_STATE_COMPLETED}


def test_a_question_never_replaces_a_newer_state(database: Database) -> None:
    release = threading.Event()

    async def run() -> None:
        store = SqliteTaskStore(database)
        made = task("t", WORKING)
        made.status.state = TaskState.TASK_STATE_INPUT_REQUIRED
        blocked = asyncio.ensure_future(database.run(lambda _connection: release.wait(20)))
        asking = asyncio.ensure_future(store.save(made, ALICE))  # waits behind it
        await asyncio.sleep(0)
        canceled = task("t", WORKING)
        canceled.status.state = TaskState.TASK_STATE_CANCELED
        await store.save(canceled, ALICE)
        release.set()
        await asyncio.gather(blocked, asking)

    asyncio.run(run())
    stored = database.transact(lambda connection: connection.execute("SELECT state FROM tasks").fetchall())
    assert stored == [(TaskState.TASK_STATE_CANCELED,)]


def test_webhooks_of_a_task_are_limited(database: Database) -> None:
    async def run() -> None:
        store = SqlitePushConfigStore(database)
        for number in range(MAX_WEBHOOKS):
            await store.set_info("t", TaskPushNotificationConfig(id=str(number), url="https://a.example"), ALICE)
        await store.set_info("t", TaskPushNotificationConfig(id="0", url="https://b.example"), ALICE)
        with pytest.raises(InvalidParamsError, match="delete one of them first"):
            await store.set_info("t", TaskPushNotificationConfig(id="more", url="https://a.example"), ALICE)
        assert len(await store.get_info("t", ALICE)) == MAX_WEBHOOKS

    asyncio.run(run())
