"""Tasks in the journal: each caller sees its own, and the servers of one database share them.

A server answers the tasks that have its runner in their row, and no other server changes those, but to cancel them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from a2a.server.context import ServerCallContext
from a2a.types import ListTasksRequest, ListTasksResponse, Message, Task, TaskPushNotificationConfig, TaskState
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import ListTasksCursor, decode_list_tasks_cursor, encode_list_tasks_cursor

from hermes.agent.workers import Workers
from hermes.base.errors import JournalError
from hermes.journal.store.connection import JournalConnection, placeholders
from hermes.journal.store.port import Store
from hermes.surfaces.a2a.server.store.contexts import store_context
from hermes.surfaces.a2a.server.store.webhooks import insert_webhook

log = logging.getLogger("hermes.a2a")

#: New chunks are written at most this often; a change of the status is always written.
_SECONDS_BETWEEN_CHUNKS = 1.0
#: A quick turn changes its task three times: one transaction for all. The answer does not wait for it, because the
#: messages themselves are recorded with their turn.
_SECONDS_TO_BATCH = 0.01

TERMINAL = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
)
_WAITING = TaskState.TASK_STATE_INPUT_REQUIRED
#: A message whose task ended like this is not answered; the same one again is a new task.
_TRIED_AGAIN = (TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED, TaskState.TASK_STATE_CANCELED)

#: The condition of the index over the tasks that have not ended.
_OPEN = "state IN (1, 2, 6)"
_INSERT = "INSERT INTO a2a_tasks (owner, id, context_id, state, runner, updated_ns, body) VALUES (?, ?, ?, ?, ?, ?, ?)"
#: A task that has ended stays as it is, and so does one that another server has taken.
_SAVE = (
    f"{_INSERT} ON CONFLICT (owner, id) DO UPDATE SET state = excluded.state, runner = excluded.runner, "
    "updated_ns = excluded.updated_ns, body = excluded.body "
    f"WHERE a2a_tasks.{_OPEN} AND coalesce(a2a_tasks.runner, ?) = ?"
)
_CHANGE = (
    "UPDATE a2a_tasks SET runner = ?, updated_ns = ?, body = ? WHERE owner = ? AND id = ? "
    "AND coalesce(runner, '') = ? AND state = ? AND coalesce(updated_ns, -1) = ? RETURNING id"
)
_CANCEL = (
    "UPDATE a2a_tasks SET state = ?, runner = NULL, updated_ns = ?, body = ? "
    f"WHERE owner = ? AND id = ? AND {_OPEN} RETURNING id"
)
#: Returns the row that was there before, if there was one.
_KEEP_MESSAGE = (
    "INSERT INTO a2a_messages (owner, context_id, message_id, digest, task_id) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (owner, context_id, message_id) DO UPDATE SET owner = excluded.owner RETURNING digest, task_id"
)
T = TypeVar("T")
_Key = tuple[str, str]
_Row = tuple[str, str, str, int, str | None, int | None, bytes]


class StoredTask(NamedTuple):
    """A task as it is stored."""

    owner: str
    task: Task
    #: The server that answers it; empty when none does.
    runner: str


class AcceptedTask(NamedTuple):
    """The task of a message: a new one, or the one that the same message started before."""

    stored: StoredTask
    is_new: bool
    session_id: str = ""


class JournalTaskStore:
    """The tasks of all callers, by owner."""

    def __init__(self, store: Store, runner_id: str, workers: Workers, *, is_shared: bool = False) -> None:
        """``is_shared``: other servers may use the same journal."""
        self._store = store
        self.runner_id = runner_id
        self._workers = workers
        self.is_shared = is_shared
        #: Tasks that this server answers: newer than their rows by at most a second.
        self._open: dict[_Key, Task] = {}
        self._written: dict[_Key, tuple[bytes, float]] = {}
        #: Rows of the next transaction.
        self._rows: dict[_Key, _Row] = {}
        #: Guards ``_rows``, and is never held for long.
        self._rows_lock = threading.Lock()
        self._flushing = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None

    # -- writing ------------------------------------------------------------------------------------------------

    async def accept(
        self,
        task: Task,
        sent: Message,
        call: ServerCallContext,
        webhook: TaskPushNotificationConfig | None = None,
    ) -> AcceptedTask:
        """Store a new task with the message as its caller sent it, the conversation, and a webhook.

        Nothing is stored for a message that started another task before, unless that one was not answered.
        """
        owner = call.user.user_name
        key = (owner, sent.context_id, sent.message_id)
        digest = hashlib.sha256(b"".join(part.SerializeToString(deterministic=True) for part in sent.parts)).digest()
        row = self._row(owner, task)

        def write(connection: JournalConnection) -> AcceptedTask:
            known_digest, task_id = connection.execute(_KEEP_MESSAGE, (*key, digest, task.id)).fetchall()[0]
            if task_id != task.id:
                known = _select(connection, "owner = ? AND id = ?", (owner, task_id)) if known_digest == digest else []
                if known and known[0].task.status.state not in _TRIED_AGAIN:
                    return AcceptedTask(known[0], is_new=False)
                change = "UPDATE a2a_messages SET digest = ?, task_id = ? "
                where = "WHERE owner = ? AND context_id = ? AND message_id = ?"
                connection.execute(change + where, (digest, task.id, *key))
            connection.execute(_INSERT, row)
            if webhook is not None:
                insert_webhook(connection, webhook, call)
            session_id = store_context(connection, (owner, task.context_id))
            return AcceptedTask(StoredTask(owner, task, self.runner_id), is_new=True, session_id=session_id)

        accepted = await self._workers.run(lambda: self._store.write_soon(write))
        if accepted.is_new:
            self._open[owner, task.id] = task
            self._written[owner, task.id] = (task.status.SerializeToString(), time.monotonic())
        return accepted

    async def claim(self, stored: StoredTask) -> bool:
        """Let this server answer a task. False when another one has changed it since it was read."""
        return await self._change(stored, stored.task, self.runner_id)

    async def add_answer(self, stored: StoredTask, answered: Task) -> bool:
        """Store a task with an answer of its caller, for the server that asked. False as with ``claim``."""
        return await self._change(stored, answered, stored.runner or None)

    async def _change(self, stored: StoredTask, changed: Task, runner: str | None) -> bool:
        before = _updated_ns(stored.task)
        found = (
            stored.owner,
            stored.task.id,
            stored.runner,
            stored.task.status.state,
            -1 if before is None else before,
        )
        return await self._write(_CHANGE, (runner, _updated_ns(changed), changed.SerializeToString(), *found))

    async def _write(self, query: str, values: tuple[object, ...]) -> bool:
        """Whether the row was there and has been changed."""

        def write(connection: JournalConnection) -> bool:
            return bool(connection.execute(query, values).fetchall())

        return await self._workers.run(lambda: self._store.write_soon(write))

    async def put(self, task: Task, owner: str) -> bool:
        """Store the task as it is now; False when it is known that another server has changed it."""
        _join_text(task)
        key = (owner, task.id)
        is_ended, is_waiting = task.status.state in TERMINAL, task.status.state == _WAITING
        if is_ended or is_waiting:
            self._open.pop(key, None)
            self._written.pop(key, None)
        else:
            status, now = task.status.SerializeToString(), time.monotonic()
            known, at = self._written.get(key, (b"", 0.0))
            self._open[key] = task
            if status == known and now - at < _SECONDS_BETWEEN_CHUNKS:
                return True
            self._written[key] = (status, now)
        with self._rows_lock:
            self._rows[key] = self._row(owner, task)
        # A question may be answered after a crash, and at another server; there its end is to be seen too.
        if is_waiting or (is_ended and self.is_shared):
            return await self._is_stored(key, task)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_SECONDS_TO_BATCH, self._flush_soon)
        return True

    async def cancel(self, owner: str, task: Task) -> bool:
        """Store the end of a task that another server answers; False when it has ended already."""
        values = (task.status.state, _updated_ns(task), task.SerializeToString(), owner, task.id)
        return await self._write(_CANCEL, values)

    async def _is_stored(self, key: _Key, task: Task) -> bool:
        query = "SELECT state FROM a2a_tasks WHERE owner = ? AND id = ?"
        row = await self._read(lambda connection: connection.execute(query, key).fetchone())
        return row == (task.status.state,)

    def _flush_soon(self) -> None:
        self._timer = None
        self._workers.submit(self._try_to_flush)

    def _try_to_flush(self) -> None:
        try:
            self.flush()
        except JournalError as error:
            log.error("a task could not be stored: %s", error)  # it is tried again with the next one

    def flush(self) -> None:
        """Store what is not stored yet. Blocking."""
        with self._flushing:
            with self._rows_lock:
                rows, self._rows = self._rows, {}
            if not rows:
                return
            values = [(*row, self.runner_id, self.runner_id) for row in rows.values()]
            try:
                self._store.write_soon(lambda connection: connection.executemany(_SAVE, values))
            except BaseException:
                with self._rows_lock:
                    self._rows = {**rows, **self._rows}  # but for what is newer
                raise

    def delete_old(self, keep_days: int) -> None:
        """Delete the tasks that ended long ago, with their webhooks and messages. Blocking."""
        oldest = time.time_ns() - keep_days * 86_400_000_000_000

        def write(connection: JournalConnection) -> None:
            connection.execute(f"DELETE FROM a2a_tasks WHERE NOT ({_OPEN}) AND updated_ns < ?", (oldest,))
            for table in ("a2a_webhooks", "a2a_messages"):
                kept = f"SELECT 1 FROM a2a_tasks t WHERE t.owner = {table}.owner AND t.id = {table}.task_id"
                connection.execute(f"DELETE FROM {table} WHERE NOT EXISTS ({kept})")

        self._store.write_soon(write)

    def _row(self, owner: str, task: Task) -> _Row:
        runner = None if task.status.state in TERMINAL else self.runner_id
        updated, body = _updated_ns(task), task.SerializeToString()
        return owner, task.id, task.context_id, task.status.state, runner, updated, body

    # -- reading ------------------------------------------------------------------------------------------------

    def _read_all(self, work: Callable[[JournalConnection], T]) -> T:
        """Read, with what is not stored yet. Blocking."""
        self.flush()
        return self._store.read(work)

    async def _read(self, work: Callable[[JournalConnection], T]) -> T:
        return await self._workers.run(partial(self._read_all, work))

    async def find(self, task_id: str, owner: str) -> StoredTask | None:
        """The task of an owner, if there is one with that id, and the server that answers it."""
        known = self._open.get((owner, task_id))
        if known is not None:
            return StoredTask(owner, copy_of(known), self.runner_id)
        found = await self._read(lambda connection: _select(connection, "owner = ? AND id = ?", (owner, task_id)))
        return found[0] if found else None

    async def stored(self, keys: Collection[_Key]) -> dict[_Key, StoredTask]:
        """These tasks as they are stored."""
        ids = [task_id for _, task_id in keys]
        found = await self._read(lambda connection: _select(connection, f"id IN ({placeholders(ids)})", ids))
        return {(one.owner, one.task.id): one for one in found}

    async def not_ended(self) -> list[StoredTask]:
        """The tasks of all owners that have not ended: those that began before those that did not, by time."""
        new = int(TaskState.TASK_STATE_SUBMITTED)
        where = f"{_OPEN} ORDER BY CASE state WHEN {new} THEN 1 ELSE 0 END, updated_ns, id"
        return await self._read(lambda connection: _select(connection, where, ()))

    async def other_servers(self) -> list[str]:
        """The runners of the other servers that answer tasks."""
        query = f"SELECT DISTINCT runner FROM a2a_tasks WHERE {_OPEN} AND runner != ?"
        rows = await self._read(lambda connection: connection.execute(query, (self.runner_id,)).fetchall())
        return [runner for (runner,) in rows]

    def open_in(self, owner: str, context_id: str) -> dict[str, int]:
        """The ids and states of the tasks of a conversation that have not ended. Blocking."""
        query = f"SELECT id, state FROM a2a_tasks WHERE owner = ? AND context_id = ? AND {_OPEN}"
        return dict(self._read_all(lambda connection: connection.execute(query, (owner, context_id)).fetchall()))

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """The caller's tasks, those changed last first."""
        where, values = _filter(params, context.user.user_name)
        after, position = _after(params.page_token)
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE

        def read(connection: JournalConnection) -> tuple[int, list[tuple[str, int | None, bytes]]]:
            count = connection.execute(f"SELECT count(*) FROM a2a_tasks WHERE {where}", values).fetchone()[0]
            query = (
                f"SELECT id, updated_ns, body FROM a2a_tasks WHERE {where}{after} "
                "ORDER BY updated_ns DESC NULLS LAST, id DESC LIMIT ?"
            )
            return count, connection.execute(query, (*values, *position, size + 1)).fetchall()

        total, rows = await self._read(read)
        token = ""
        if len(rows) > size:
            task_id, updated, _ = rows[size - 1]
            token = encode_list_tasks_cursor(ListTasksCursor(timestamp_ns=updated, task_id=task_id))
        tasks = [self._newest(context.user.user_name, task_id, body) for task_id, _, body in rows[:size]]
        return ListTasksResponse(tasks=tasks, next_page_token=token, page_size=size, total_size=total)

    def _newest(self, owner: str, task_id: str, body: bytes) -> Task:
        known = self._open.get((owner, task_id))
        return Task.FromString(body) if known is None else copy_of(known)


def _select(connection: JournalConnection, where: str, values: Sequence[object]) -> list[StoredTask]:
    query = f"SELECT owner, body, coalesce(runner, '') FROM a2a_tasks WHERE {where}"
    rows = connection.execute(query, values).fetchall()
    return [StoredTask(owner, Task.FromString(body), runner) for owner, body, runner in rows]


def _updated_ns(task: Task) -> int | None:
    return task.status.timestamp.ToNanoseconds() if task.status.HasField("timestamp") else None


def copy_of(task: Task) -> Task:
    """A task of its own with the same content."""
    made = Task()
    made.CopyFrom(task)
    return made


def _join_text(task: Task) -> None:
    """Join the chunks of the last artifact into one part."""
    if not task.artifacts:
        return
    parts = task.artifacts[-1].parts
    if len(parts) > 1 and all(part.WhichOneof("content") == "text" and not part.HasField("metadata") for part in parts):
        text = "".join(part.text for part in parts)
        del parts[1:]
        parts[0].text = text


def _filter(params: ListTasksRequest, owner: str) -> tuple[str, tuple[str | int, ...]]:
    clauses: list[str] = ["owner = ?"]
    wanted: list[str | int] = [owner]
    if params.context_id:
        clauses.append("context_id = ?")
        wanted.append(params.context_id)
    if params.status:
        clauses.append("state = ?")
        wanted.append(int(params.status))
    if params.HasField("status_timestamp_after"):
        clauses.append("updated_ns >= ?")
        wanted.append(params.status_timestamp_after.ToNanoseconds())
    return " AND ".join(clauses), tuple(wanted)


def _after(token: str) -> tuple[str, tuple[str | int, ...]]:
    """The condition for the next page of the list (cursor pagination)."""
    if not token:
        return "", ()
    cursor = decode_list_tasks_cursor(token)
    if cursor is None:
        raise InvalidParamsError(message="the page token is not one that this server gave")
    if cursor.timestamp_ns is None:
        return " AND updated_ns IS NULL AND id < ?", (cursor.task_id,)
    return (
        " AND (updated_ns < ? OR (updated_ns = ? AND id < ?) OR updated_ns IS NULL)",
        (cursor.timestamp_ns, cursor.timestamp_ns, cursor.task_id),
    )
