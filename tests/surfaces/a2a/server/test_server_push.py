"""Webhooks of a served task lead nowhere they must not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from a2a.types import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError

from hermes.testing import ScriptedProvider, by_step, text, tool_call
from support.a2a_rig import calling, said, served, stream
from support.webhook import webhook

SCRIPT = by_step(tool_call("terminal", {"command": "echo hello"}), text("It says hello.", chunks=6))


def test_a_webhook_in_the_private_network_is_refused(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent) as client:
            [*_, last] = await stream(client, said("go"))
            config = TaskPushNotificationConfig(task_id=last.status_update.task_id, url=hook.url)
            with pytest.raises(InvalidParamsError):
                await client.create_task_push_notification_config(config)

    with webhook() as hook, ScriptedProvider(SCRIPT) as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
        assert hook.bodies == []
