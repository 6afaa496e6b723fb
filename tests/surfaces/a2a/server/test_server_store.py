"""What is kept of tasks, and what a server finds when it starts."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from a2a.server.context import ServerCallContext
from a2a.types import (
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import InvalidParamsError

from hermes.base.errors import JournalError
from hermes.base.http_server.principals import Principal
from hermes.surfaces.a2a.server.access.middleware import PrincipalUser
from hermes.surfaces.a2a.server.store import tasks as tasks_module
from hermes.surfaces.a2a.server.store.tasks import JournalTaskStore, StoredTask
from hermes.surfaces.a2a.server.store.webhooks import MAX_WEBHOOKS
from hermes.testing import ScriptedProvider, hanging, text
from support.a2a_rig import artifact_text, calling, said, send, served, state_name, wire_message
from support.a2a_tables import A2ATables, a2a_tables

ALICE = ServerCallContext(user=PrincipalUser(Principal("alice")))
BOB = ServerCallContext(user=PrincipalUser(Principal("bob")))
SUBMITTED, WORKING = TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING
FAILED, CANCELED = TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED
WAITING = TaskState.TASK_STATE_INPUT_REQUIRED
COMPLETED = TaskState.TASK_STATE_COMPLETED
#: One server: what it has stored, it may change.
SERVER = "server"


@pytest.fixture
def tables(home: Path) -> Generator[A2ATables]:
    with a2a_tables(home) as made:
        yield made


def task(name: str, state: TaskState = COMPLETED, *, at: float = 0.0, context_id: str = "c") -> Task:
    made = Task(id=name, context_id=context_id, status=TaskStatus(state=state))
    if at:
        made.status.timestamp.FromNanoseconds(int(at * 1e9))
    return made


async def found(store: JournalTaskStore) -> Task | None:
    stored = await store.find("t", "alice")
    return None if stored is None else stored.task


def message(words: str) -> Message:
    return Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=words)])


def test_chunks_are_joined_and_written_with_the_next_status(tables: A2ATables) -> None:
    async def run() -> None:
        store = tables.tasks(SERVER)
        made = task("t", WORKING)
        await store.put(made, "alice")
        for piece in "abc":
            if not made.artifacts:
                made.artifacts.append(Artifact(artifact_id="a"))
            made.artifacts[0].parts.append(Part(text=piece))
            await store.put(made, "alice")
        known = await found(store)
        assert known is not None and [part.text for part in known.artifacts[0].parts] == ["abc"]
        await asyncio.to_thread(store.flush)
        assert await found(tables.tasks(SERVER)) == task("t", WORKING)
        made.status.state = COMPLETED
        await store.put(made, "alice")
        await asyncio.to_thread(store.flush)
        written = await found(tables.tasks(SERVER))
        assert written is not None and written == made and artifact_text(written) == "abc"
        assert await store.find("t", "bob") is None

    asyncio.run(run())


def test_a_task_from_the_store_is_a_copy(tables: A2ATables) -> None:
    async def run() -> None:
        store = tables.tasks(SERVER)
        await store.put(task("t", WORKING), "alice")
        first = await found(store)
        assert first is not None
        first.context_id = "changed"
        second = await found(store)
        assert second is not None and second.context_id == "c"

    asyncio.run(run())


def test_pagination_lists_every_task_once(tables: A2ATables) -> None:
    async def run() -> None:
        store = tables.tasks(SERVER)
        made = [task(f"t{number}", at=1_000 + number // 3) for number in range(10)] + [task("u1"), task("u2")]
        for one in made:
            await store.put(one, "alice")
        await store.put(task("other"), "bob")
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


def test_webhooks_are_kept_by_owner(tables: A2ATables) -> None:
    async def run() -> None:
        store = tables.webhooks()
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


def test_tasks_that_ended_long_ago_are_deleted_and_those_left_open_are_found(tables: A2ATables) -> None:
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
        store = tables.tasks(SERVER)
        for one in tasks:
            await store.put(one, "alice")
        await asyncio.to_thread(store.flush)
        await tables.webhooks().set_info("old", TaskPushNotificationConfig(url="https://a"), ALICE)

    async def states() -> dict[str, str]:
        page = await tables.tasks(SERVER).list(ListTasksRequest(page_size=100), ALICE)
        assert await tables.webhooks().get_info_for_dispatch("old") == []
        return {found.id: state_name(found.status.state) for found in page.tasks}

    async def left() -> list[tuple[str, str]]:
        return [(one.owner, one.task.id) for one in await tables.tasks(SERVER).not_ended()]

    asyncio.run(fill())
    tables.tasks().delete_old(30)
    assert asyncio.run(states()) == {
        "working": "working",
        "submitted": "submitted",
        "parked": "input_required",
        "new": "completed",
        "old but parked": "input_required",
    }
    # Those that had begun first: the others wait for them when they share a conversation.
    assert asyncio.run(left()) == [("alice", one) for one in ("old but parked", "parked", "working", "submitted")]


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
    with closing(sqlite3.connect(home / "state.db")) as connection, connection:
        values = (int(WORKING), left.status.timestamp.ToNanoseconds(), left.SerializeToString(), left.id)
        connection.execute("UPDATE a2a_tasks SET state = ?, updated_ns = ?, body = ? WHERE id = ?", values)
    with closing(sqlite3.connect(home / "state.db")) as connection, connection:
        connection.execute("UPDATE turns SET state = 'running', ended_at = NULL, error = NULL")


def states_in(tables: A2ATables) -> dict[str, int]:
    query = "SELECT id, state FROM a2a_tasks"
    return dict(tables.store.read(lambda connection: connection.execute(query).fetchall()))


def test_a_task_is_stored_when_it_is_accepted(tables: A2ATables, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its message, its conversation and its webhook; the same message again is the same task."""
    monkeypatch.setattr(tasks_module, "_SECONDS_TO_BATCH", 3_600.0)

    async def run() -> None:
        store, hook = tables.tasks(SERVER), TaskPushNotificationConfig(task_id="t", id="h", url="https://a.example")
        first = await store.accept(task("t", SUBMITTED), message("hello"), ALICE, hook)
        assert first.is_new and first.session_id
        assert states_in(tables) == {"t": SUBMITTED}
        assert await tables.webhooks().get_info("t", ALICE) == [hook]
        for again in (store, tables.tasks("another server")):
            known = await again.accept(task("u", SUBMITTED), message("hello"), ALICE)
            assert (known.is_new, known.stored.task.id, known.stored.runner) == (False, "t", SERVER)
        other = await store.accept(task("v", SUBMITTED), message("something else"), ALICE)
        assert other.is_new and other.session_id == first.session_id, "one id for two messages of a conversation"
        assert (await store.accept(task("t", SUBMITTED), message("hello"), BOB)).is_new

    asyncio.run(run())


def test_a_message_whose_task_failed_is_tried_again(tables: A2ATables) -> None:
    async def run() -> None:
        store = tables.tasks(SERVER)
        for name in ("t", "u"):
            assert (await store.accept(task(name, SUBMITTED), message("hello"), ALICE)).is_new
            await store.put(task(name, FAILED), "alice")
            await asyncio.to_thread(store.flush)

    asyncio.run(run())


def test_a_question_is_stored_before_its_caller_gets_it(tables: A2ATables) -> None:
    async def run() -> None:
        store = tables.tasks(SERVER)
        made = task("t", WORKING)
        await store.put(made, "alice")
        made.status.state = WAITING
        await store.put(made, "alice")
        assert states_in(tables) == {"t": WAITING}

    asyncio.run(run())


def test_what_a_full_disk_kept_from_being_stored_is_stored_later(
    tables: A2ATables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks_module, "_SECONDS_TO_BATCH", 3_600.0)

    def fail(_work: object) -> None:
        raise JournalError("no space left")

    async def run() -> None:
        store = tables.tasks(SERVER)
        await store.put(task("t", WORKING), "alice")
        with monkeypatch.context() as broken, pytest.raises(JournalError):
            broken.setattr(tables.store, "write_soon", fail)
            store.flush()
        await store.put(task("other"), "alice")
        await store.put(task("t", FAILED), "alice")  # newer than what failed
        store.flush()

    asyncio.run(run())
    assert states_in(tables) == {"t": FAILED, "other": COMPLETED}


def test_a_question_never_replaces_a_newer_state(tables: A2ATables, monkeypatch: pytest.MonkeyPatch) -> None:
    release, write = threading.Event(), tables.store.write_soon

    def blocked(work: Any) -> Any:
        release.wait(20)
        return write(work)

    async def run() -> None:
        store = tables.tasks(SERVER)
        monkeypatch.setattr(tables.store, "write_soon", blocked)
        asking = asyncio.ensure_future(store.put(task("t", WAITING), "alice"))
        await asyncio.sleep(0)
        await store.put(task("t", CANCELED), "alice")
        release.set()
        await asking
        await asyncio.to_thread(store.flush)

    asyncio.run(run())
    assert states_in(tables) == {"t": CANCELED}


def test_one_server_at_a_time_answers_a_task(tables: A2ATables) -> None:
    """What another one has taken or ended, a server no longer changes."""

    async def run() -> None:
        first, second = tables.tasks("first"), tables.tasks("second")
        await first.accept(task("t", SUBMITTED, at=1), message("hello"), ALICE)
        found = await second.find("t", "alice")
        assert found is not None and found.runner == "first"
        assert not await second.claim(StoredTask("alice", found.task, "")), "it is answered"
        assert await second.claim(found), "its server is gone"
        assert not await second.claim(found)
        await first.put(task("t", COMPLETED, at=2), "alice")
        await asyncio.to_thread(first.flush)
        assert states_in(tables) == {"t": SUBMITTED}
        assert await first.cancel("alice", task("t", CANCELED, at=3))
        assert not await first.cancel("alice", task("t", CANCELED, at=3))
        await second.put(task("t", COMPLETED, at=4), "alice")
        await asyncio.to_thread(second.flush)
        assert states_in(tables) == {"t": CANCELED}

    asyncio.run(run())


def test_webhooks_of_a_task_are_limited(tables: A2ATables) -> None:
    async def run() -> None:
        store = tables.webhooks()
        for number in range(MAX_WEBHOOKS):
            await store.set_info("t", TaskPushNotificationConfig(id=str(number), url="https://a.example"), ALICE)
        await store.set_info("t", TaskPushNotificationConfig(id="0", url="https://b.example"), ALICE)
        with pytest.raises(InvalidParamsError, match="delete one of them first"):
            await store.set_info("t", TaskPushNotificationConfig(id="more", url="https://a.example"), ALICE)
        assert len(await store.get_info("t", ALICE)) == MAX_WEBHOOKS

    asyncio.run(run())
