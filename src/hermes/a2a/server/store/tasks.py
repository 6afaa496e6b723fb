"""Task store in SQLite: each caller sees its own tasks; chunks of an artifact are not written one by one."""

from __future__ import annotations

import sqlite3
import time
from functools import partial

from a2a.server.context import ServerCallContext
from a2a.server.tasks import TaskStore
from a2a.types import ListTasksRequest, ListTasksResponse, Part, Task, TaskState
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import ListTasksCursor, decode_list_tasks_cursor, encode_list_tasks_cursor

from hermes.a2a.server.store.database import Database

#: New chunks are written at most this often; a change of the status is always written.
_SECONDS_BETWEEN_CHUNKS = 1.0
_SECONDS_TO_STORE_NEW = 0.002

TERMINAL = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_REJECTED,
)

_Key = tuple[str, str]


class SqliteTaskStore(TaskStore):
    """The tasks of all callers, by owner. One process at a time uses them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: Tasks that have not ended: newer than the file by at most a second.
        self._open: dict[_Key, Task] = {}
        self._written: dict[_Key, tuple[bytes, float]] = {}
        #: The ids of the tasks that wait for an answer, by owner and context.
        self._waiting: dict[_Key, str] = dict(database.transact(_load_waiting))

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Store the task as it is now."""
        _join_text(task)
        key = (context.user.user_name, task.id)
        conversation = (context.user.user_name, task.context_id)
        is_waiting = task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        if is_waiting:
            self._waiting[conversation] = task.id
        elif self._waiting.get(conversation) == task.id:
            del self._waiting[conversation]
        status, now = task.status.SerializeToString(), time.monotonic()
        known, at = self._written.get(key, (b"", 0.0))
        is_ended = task.status.state in TERMINAL
        if is_ended:
            self._open.pop(key, None)
            self._written.pop(key, None)
        else:
            self._open[key] = task
            if status == known and now - at < _SECONDS_BETWEEN_CHUNKS:
                return
            self._written[key] = (status, now)
        write = partial(_write, row=_row(context.user.user_name, task))
        # A caller may ask for a new task after a crash. It is stored early, but not while its turn is being started.
        is_new = not known and not is_ended
        self._database.run_soon(("task", *key), write, seconds=_SECONDS_TO_STORE_NEW if is_new else None)
        if is_waiting:
            # Before the caller gets the question: it may be answered after a crash.
            await self._database.run(lambda _connection: None)

    def flush(self) -> None:
        """Store what is not stored yet. Blocking."""
        self._database.flush()

    async def not_ended(self) -> list[tuple[str, Task]]:
        """The stored tasks of all owners that have not ended: those that began before those that did not, by time."""
        ended = ", ".join(map(str, TERMINAL))
        new = int(TaskState.TASK_STATE_SUBMITTED)
        query = f"SELECT owner, body FROM tasks WHERE state NOT IN ({ended}) ORDER BY state = {new}, updated_ns, id"
        rows = await self._database.run(lambda connection: connection.execute(query).fetchall())
        return [(owner, Task.FromString(body)) for owner, body in rows]

    @property
    def has_waiting(self) -> bool:
        """Whether any task waits for an answer."""
        return bool(self._waiting)

    def waiting_in(self, context: tuple[str, str]) -> str | None:
        """The id of the task that waits for an answer in a context, if there is one."""
        return self._waiting.get(context)

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """The caller's task with that id, if there is one."""
        owner = context.user.user_name
        known = self._open.get((owner, task_id))
        if known is not None:
            return _copy(known)
        query = "SELECT body FROM tasks WHERE owner = ? AND id = ?"
        found = await self._database.run(lambda connection: connection.execute(query, (owner, task_id)).fetchone())
        return None if found is None else Task.FromString(found[0])

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """The caller's tasks, those changed last first."""
        where, values = _filter(params, context.user.user_name)
        after, position = _after(params.page_token)
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE

        def read(connection: sqlite3.Connection) -> tuple[int, list[tuple[str, int | None, bytes]]]:
            count = connection.execute(f"SELECT count(*) FROM tasks WHERE {where}", values).fetchone()[0]
            query = (
                f"SELECT id, updated_ns, body FROM tasks WHERE {where}{after} "
                "ORDER BY updated_ns DESC NULLS LAST, id DESC LIMIT ?"
            )
            return count, connection.execute(query, (*values, *position, size + 1)).fetchall()

        total, rows = await self._database.run(read)
        token = ""
        if len(rows) > size:
            task_id, updated, _ = rows[size - 1]
            token = encode_list_tasks_cursor(ListTasksCursor(timestamp_ns=updated, task_id=task_id))
        tasks = [self._newest(context.user.user_name, task_id, body) for task_id, _, body in rows[:size]]
        return ListTasksResponse(tasks=tasks, next_page_token=token, page_size=size, total_size=total)

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Delete a task of the caller."""
        key = (context.user.user_name, task_id)
        self._open.pop(key, None)
        self._written.pop(key, None)
        self._waiting = {context: waiting for context, waiting in self._waiting.items() if waiting != task_id}
        query = "DELETE FROM tasks WHERE owner = ? AND id = ?"
        await self._database.run(lambda connection: connection.execute(query, key))

    def _newest(self, owner: str, task_id: str, body: bytes) -> Task:
        known = self._open.get((owner, task_id))
        return Task.FromString(body) if known is None else _copy(known)


def delete_old(database: Database, keep_days: int) -> None:
    """Delete the tasks that ended long ago, with their webhooks."""

    def work(connection: sqlite3.Connection) -> None:
        oldest = time.time_ns() - keep_days * 86_400_000_000_000
        ended = ", ".join(map(str, TERMINAL))
        connection.execute(f"DELETE FROM tasks WHERE state IN ({ended}) AND updated_ns < ?", (oldest,))
        connection.execute("DELETE FROM push_configs WHERE (owner, task_id) NOT IN (SELECT owner, id FROM tasks)")

    database.transact(work)


def _load_waiting(connection: sqlite3.Connection) -> list[tuple[_Key, str]]:
    query = "SELECT owner, context_id, id FROM tasks WHERE state = ?"
    rows = connection.execute(query, (int(TaskState.TASK_STATE_INPUT_REQUIRED),))
    return [((owner, context_id), task_id) for owner, context_id, task_id in rows]


def _copy(task: Task) -> Task:
    made = Task()
    made.CopyFrom(task)
    return made


def _join_text(task: Task) -> None:
    """Join the chunks of the last artifact into one part."""
    if not task.artifacts:
        return
    parts = task.artifacts[-1].parts
    if len(parts) > 1 and all(_is_plain(part) for part in parts):
        text = "".join(part.text for part in parts)
        del parts[1:]
        parts[0].text = text


def _is_plain(part: Part) -> bool:
    return part.WhichOneof("content") == "text" and not part.HasField("metadata")


_Row = tuple[str, str, str, int, int | None, bytes]


def _row(owner: str, task: Task) -> _Row:
    updated = task.status.timestamp.ToNanoseconds() if task.status.HasField("timestamp") else None
    return owner, task.id, task.context_id, task.status.state, updated, task.SerializeToString()


def _write(connection: sqlite3.Connection, row: _Row) -> None:
    connection.execute("INSERT OR REPLACE INTO tasks VALUES (?, ?, ?, ?, ?, ?)", row)


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
