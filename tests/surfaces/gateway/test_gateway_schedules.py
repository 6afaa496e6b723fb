"""Schedules in the gateway: made from a chat, fired by its process, answered in the chat they came from."""

from __future__ import annotations

import time
from typing import Any

from hermes.base.config.schema.sections import CronConfig
from hermes.service.schedules.schedule import Schedule
from hermes.service.schedules.scheduler import is_running
from hermes.service.schedules.store import Schedules, new_schedule
from hermes.surfaces.gateway.schedules import ScheduleService
from hermes.testing import RecordedRequest, ScriptedReply, text, tool_call
from support.gateway_rig import GatewayRig, RunningGateway, SwitchedProvider
from support.waiting import wait_until


def start(rig: GatewayRig, service: ScheduleService | None, **cron: Any) -> RunningGateway:
    settings: dict[str, Any] = {"tool": True, "timezone": "UTC", **cron}
    return rig.start(services=[service] if service else [], sections={"cron": CronConfig(**settings)})


def fire(service: ScheduleService, schedules: Schedules, schedule: Schedule) -> None:
    schedules.fire_soon(schedule)
    assert service.scheduler is not None
    service.scheduler.wake()


def remind(request: RecordedRequest) -> ScriptedReply:
    """A model that makes a schedule when it is asked to, and reminds when one fires."""
    if "This message comes from the schedule" in str(request.messages[-1]["content"]):
        return text(f"Reminder: {request.last_user_text.splitlines()[0]}")
    if request.messages[-1]["role"] == "tool":
        return text("made")
    if "remind" in request.last_user_text:
        return tool_call("cronjob", {"action": "create", "prompt": "the oven", "schedule": "every 1h"})
    return text("hello")


def test_a_schedule_of_a_chat_is_answered_in_that_chat(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = remind
    service = ScheduleService()
    running = start(rig, service)
    client = rig.client()
    assert client.ask("remind me") == "made"
    schedules = Schedules(running.host.store)
    (made,) = schedules.list()
    assert (made.deliver, made.principal, made.source) == ("line:alice", "", "tool")
    fire(service, schedules, made)
    assert client.hear(2)[1].startswith("Reminder: the oven")
    wait_until(lambda: schedules.runs(made.id)[0].state == "completed")
    assert schedules.runs(made.id)[0].delivery == "sent to line:alice"
    row = running.host.sessions.get(schedules.runs(made.id)[0].session_id)
    assert row.platform == "cron"


def test_users_of_a_platform_have_schedules_of_their_own_where_that_is_allowed(
    rig: GatewayRig, provider: SwitchedProvider
) -> None:
    provider.script = remind
    service = ScheduleService()
    running = start(rig, service, for_principals=True)
    client = rig.client()
    assert client.ask("remind me", "bob") == "made"
    schedules = Schedules(running.host.store)
    (made,) = schedules.list()
    assert made.principal
    assert made.deliver == "line:bob"
    fire(service, schedules, made)
    assert client.hear(2, "bob")[1].startswith("Reminder: the oven")
    wait_until(lambda: schedules.runs(made.id)[0].state == "completed")
    row = running.host.sessions.get(schedules.runs(made.id)[0].session_id)
    assert (row.platform, row.principal) == ("cron", made.principal)


def test_others_are_not_offered_the_tool(rig: GatewayRig, provider: SwitchedProvider) -> None:
    start(rig, None)
    client = rig.client()
    client.ask("hi", "bob")
    client.ask("hi", "alice")
    offered = [{tool["function"]["name"] for tool in request.body["tools"]} for request in provider.requests]
    assert ["cronjob" in names for names in offered] == [False, True]


def test_a_schedule_that_is_overdue_fires_when_the_gateway_starts(rig: GatewayRig) -> None:
    first = start(rig, None)
    made = new_schedule(
        name="overdue",
        prompt="say it",
        timing="in 1m",
        zone="UTC",
        cwd=str(rig.workdir),
        now=time.time() - 120,
        deliver="line:alice",
    )
    Schedules(first.host.store).add(made)
    first.stop()
    second = start(rig, ScheduleService())
    client = rig.client()
    assert "Answer to say it" in client.hear(1)[0]
    schedules = Schedules(second.host.store)
    wait_until(lambda: schedules.get(made.id).state == "done")
    assert is_running(rig.home)
    second.stop()
    assert not is_running(rig.home)
    assert len(client.texts()) == 1
