"""Webhook store in SQLite: where callers want events of their tasks sent, by owner and task."""

from __future__ import annotations

import sqlite3

from a2a.server.context import ServerCallContext
from a2a.server.tasks import PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import TaskPushNotificationConfig
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from a2a.utils.errors import InvalidParamsError

from hermes.a2a.server.store.database import Database
from hermes.a2a.server.transports.compat import OLD, is_old_call

#: Every event of a task is sent to each of its webhooks.
MAX_WEBHOOKS = 20


class SqlitePushConfigStore(PushNotificationConfigStore):
    """The webhooks of all callers."""

    def __init__(self, database: Database) -> None:
        self._database = database
        query = "SELECT task_id, id, version FROM push_configs"
        known = database.transact(lambda connection: connection.execute(query).fetchall())
        #: Tasks with webhooks: few have any, and this is checked for every event.
        self._tasks: set[str] = {task_id for task_id, _, _ in known}
        #: The webhooks that callers of protocol 0.3 registered.
        self._old: set[tuple[str, str]] = {(task_id, key) for task_id, key, version in known if version == OLD}

    def has(self, task_id: str) -> bool:
        """Whether the task may have webhooks."""
        return task_id in self._tasks

    def is_old(self, webhook: TaskPushNotificationConfig) -> bool:
        """Whether the webhook expects the bodies of protocol 0.3."""
        return (webhook.task_id, webhook.id) in self._old

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Store a webhook; one with the same id is replaced."""
        kept = normalize_push_notification_config(task_id, notification_config)
        version = OLD if is_old_call(context) else PROTOCOL_VERSION_1_0
        row = (context.user.user_name, task_id, kept.id, kept.SerializeToString(), version)

        def keep(connection: sqlite3.Connection) -> bool:
            others = "SELECT count(*) FROM push_configs WHERE task_id = ? AND id != ?"
            if connection.execute(others, (task_id, kept.id)).fetchone()[0] >= MAX_WEBHOOKS:
                return False
            connection.execute("INSERT OR REPLACE INTO push_configs VALUES (?, ?, ?, ?, ?)", row)
            return True

        if not await self._database.run(keep):
            raise InvalidParamsError(message=f"a task may have {MAX_WEBHOOKS} webhooks; delete one of them first")
        self._tasks.add(task_id)
        (self._old.add if version == OLD else self._old.discard)((task_id, kept.id))
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
        query = f"DELETE FROM push_configs WHERE {where}"
        await self._database.run(lambda connection: connection.execute(query, values))

    async def _read(self, where: str, values: tuple[str, ...]) -> list[TaskPushNotificationConfig]:
        query = f"SELECT body FROM push_configs WHERE {where} ORDER BY id"
        rows = await self._database.run(lambda connection: connection.execute(query, values).fetchall())
        return [TaskPushNotificationConfig.FromString(body) for (body,) in rows]
