"""Webhooks in the journal: where callers want events of their tasks sent, by owner and task."""

from __future__ import annotations

from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import TaskPushNotificationConfig
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from a2a.utils.errors import InvalidParamsError

from hermes.agent.workers import Workers
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.surfaces.a2a.server.transports.compat import OLD, is_old_call

#: Every event of a task is sent to each of its webhooks.
MAX_WEBHOOKS = 20


def insert_webhook(
    connection: JournalConnection, webhook: TaskPushNotificationConfig, context: ServerCallContext
) -> None:
    """Store a webhook of the caller, inside a transaction; one with the same id is replaced."""
    version = OLD if is_old_call(context) else PROTOCOL_VERSION_1_0
    connection.execute(
        "INSERT INTO a2a_webhooks (owner, task_id, id, version, body) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT (task_id, owner, id) DO UPDATE SET version = excluded.version, body = excluded.body",
        (context.user.user_name, webhook.task_id, webhook.id, version, webhook.SerializeToString()),
    )


class JournalPushConfigStore(PushNotificationConfigStore):
    """The webhooks of all callers."""

    def __init__(self, store: Store, workers: Workers, *, is_shared: bool = False) -> None:
        self._store = store
        self._workers = workers
        self._is_shared = is_shared
        query = "SELECT DISTINCT task_id FROM a2a_webhooks"
        known = store.read(lambda connection: connection.execute(query).fetchall())
        #: Tasks with webhooks: few have any, and this is checked for every event.
        self._tasks: set[str] = {task_id for (task_id,) in known}
        #: The webhooks that callers of protocol 0.3 registered, among those that were read.
        self._old: set[tuple[str, str]] = set()

    def has(self, task_id: str) -> bool:
        """Whether the task may have webhooks: other servers may have stored some."""
        return self._is_shared or task_id in self._tasks

    def note(self, task_id: str) -> None:
        """The task has one from now on."""
        self._tasks.add(task_id)

    def is_old(self, webhook: TaskPushNotificationConfig) -> bool:
        """Whether the webhook expects the bodies of protocol 0.3."""
        return (webhook.task_id, webhook.id) in self._old

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Store a webhook; one with the same id is replaced."""
        kept = normalize_push_notification_config(task_id, notification_config)

        def keep(connection: JournalConnection) -> bool:
            others = "SELECT count(*) FROM a2a_webhooks WHERE task_id = ? AND id != ?"
            if connection.execute(others, (task_id, kept.id)).fetchone()[0] >= MAX_WEBHOOKS:
                return False
            insert_webhook(connection, kept, context)
            return True

        if not await self._workers.run(lambda: self._store.write_soon(keep)):
            raise InvalidParamsError(message=f"a task may have {MAX_WEBHOOKS} webhooks; delete one of them first")
        self.note(task_id)
        return kept

    async def get_info(self, task_id: str, context: ServerCallContext) -> list[TaskPushNotificationConfig]:
        """The caller's webhooks of a task."""
        return await self._read("task_id = ? AND owner = ?", (task_id, context.user.user_name))

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Every webhook of a task, of all owners."""
        return await self._read("task_id = ?", (task_id,))

    async def delete_info(self, task_id: str, context: ServerCallContext, config_id: str | None = None) -> None:
        """Delete one webhook of the caller, or all of a task."""
        where, values = "task_id = ? AND owner = ?", (task_id, context.user.user_name)
        if config_id is not None:
            where, values = f"{where} AND id = ?", (*values, config_id)
        query = f"DELETE FROM a2a_webhooks WHERE {where}"
        await self._workers.run(lambda: self._store.write_soon(lambda connection: connection.execute(query, values)))

    async def _read(self, where: str, values: tuple[str, ...]) -> list[TaskPushNotificationConfig]:
        query = f"SELECT body, version FROM a2a_webhooks WHERE {where} ORDER BY id"
        rows = await self._workers.run(
            lambda: self._store.read(lambda connection: connection.execute(query, values).fetchall())
        )
        found = [(TaskPushNotificationConfig.FromString(body), version) for body, version in rows]
        for webhook, version in found:
            (self._old.add if version == OLD else self._old.discard)((webhook.task_id, webhook.id))
        return [webhook for webhook, _ in found]
