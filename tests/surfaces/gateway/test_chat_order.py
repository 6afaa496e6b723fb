"""Messages of a chat keep their order, whatever happens while one is being stored, submitted or answered."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest

from hermes.service.dispatch.port import TurnRequest, TurnTicket
from hermes.surfaces.gateway.adapter import MessageEvent, Platform, SessionSource
from hermes.surfaces.gateway.chats.chat import ChatWork, GatewayChat
from hermes.surfaces.gateway.gateway import Gateway
from hermes.testing import RecordedRequest, ScriptedReply, text
from support.gateway_rig import GatewayRig, RunningGateway, SwitchedProvider
from support.waiting import wait_for, wait_until


def count_submits(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> list[TurnRequest]:
    """The turns that were submitted, and those that were tried to be."""
    alone: list[TurnRequest] = []
    submit = running.gateway.dispatcher.submit

    def counted(request: TurnRequest, **options: Any) -> TurnTicket:
        alone.append(request)
        return submit(request, **options)

    monkeypatch.setattr(running.gateway.dispatcher, "submit", counted)
    return alone


def event(said: str, number: int) -> MessageEvent:
    source = SessionSource(Platform("line"), "alice", user_id="alice", user_name="alice")
    return MessageEvent(said, source=source, message_id=f"e{number}")


def test_a_full_queue_keeps_the_message_and_tries_again(
    rig: GatewayRig, provider: SwitchedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.surfaces.gateway.chats.chat._FULL_SECONDS", 0.02)
    hold = threading.Event()
    provider.script = lambda request: text(f"Answer to {request.last_user_text}", hold=hold)
    running = rig.start(worker={"slots": 1, "max_waiting": 1})
    alone = count_submits(running, monkeypatch)
    client = rig.client()
    chats = ["alice", "bob", "carol", "dave"]
    for chat in chats:
        client.accepted(client.say("hello", chat, id=f"of {chat}"))
    wait_until(lambda: len(alone) > 2, "attempts to submit a turn")
    hold.set()
    assert [client.hear(1, chat) for chat in chats] == [["Answer to hello"]] * 4


def test_messages_that_arrive_at_once_keep_their_order(rig: GatewayRig) -> None:
    running = rig.start()
    client = rig.client()

    async def receive_all() -> None:
        await asyncio.gather(*(running.gateway.receive(event(f"say {number}", number)) for number in range(20)))

    running.on_loop(receive_all())
    assert client.hear(20) == [f"Answer to say {number}" for number in range(20)]


def test_an_adapter_that_gives_up_does_not_hold_up_what_is_stored(
    rig: GatewayRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    accept = Gateway._accept  # pyright: ignore[reportPrivateUsage]

    def slow(self: Gateway, *args: Any) -> ChatWork | None:
        begun.set()
        wait_for(go_on, "the cancelled task")
        return accept(self, *args)

    monkeypatch.setattr(Gateway, "_accept", slow)
    running = rig.start()
    client = rig.client()

    async def give_up() -> None:
        task = asyncio.create_task(running.gateway.receive(event("hello", 1)))
        await asyncio.to_thread(wait_for, begun, "the message")
        task.cancel()
        await asyncio.wait([task])
        go_on.set()

    running.on_loop(give_up())
    assert client.hear(1) == ["Answer to hello"]


def test_a_new_session_drops_the_turn_that_is_being_submitted(
    rig: GatewayRig, provider: SwitchedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, submitting, go_on = threading.Event(), threading.Event(), threading.Event()

    def script(request: RecordedRequest) -> ScriptedReply:
        said = request.last_user_text
        return text(f"Answer to {said}", hold=first) if said == "one" else text(f"Answer to {said}")

    provider.script = script
    running = rig.start()
    submit = running.gateway.dispatcher.submit

    def slow(request: TurnRequest, **options: Any) -> TurnTicket:
        if request.message == "two":
            submitting.set()
            wait_for(go_on, "the command")
        return submit(request, **options)

    monkeypatch.setattr(running.gateway.dispatcher, "submit", slow)
    clearing, stop = threading.Event(), GatewayChat.stop

    async def stopped(chat: GatewayChat, reason: str) -> bool:
        clearing.set()
        return await stop(chat, reason)

    monkeypatch.setattr(GatewayChat, "stop", stopped)
    client = rig.client()
    client.say("one")
    client.accepted(client.say("two"))
    first.set()
    wait_for(submitting, "the second turn")
    client.say("/new")
    wait_for(clearing, "the command to drop what waits")
    go_on.set()
    client.say("three")
    wait_until(lambda: "Answer to three" in client.texts(), "the answer after the command")
    texts = client.texts()
    assert texts.count("Answer to one") == 1
    assert "Answer to two" not in texts


def stored_rows(rig: GatewayRig) -> tuple[list[Any], list[Any]]:
    """The states of the messages, and those of their answers."""
    with closing(sqlite3.connect(rig.home / "state.db")) as connection:
        incoming = connection.execute("SELECT state FROM gateway_inbox ORDER BY number").fetchall()
        return incoming, connection.execute("SELECT state, content FROM gateway_outbox ORDER BY number").fetchall()


def test_an_answer_is_not_claimed_while_hooks_of_its_turn_run(rig: GatewayRig) -> None:
    seen: list[tuple[list[Any], list[Any]]] = []

    class Observer:
        @staticmethod
        def register(ctx: Any) -> None:
            def look(**_: Any) -> None:
                seen.append(stored_rows(rig))

            ctx.register_hook("post_llm_call", look)

    rig.start(plugins=[Observer])
    assert rig.client().ask("hello") == "Answer to hello"
    assert seen == [([("queued",)], [])]
