"""A message is stored with its turn, and an answer with the turn of the next message, where nothing is in between."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest

from hermes.dispatch.port import TurnRequest, TurnTicket
from hermes.gateway.adapter import MessageEvent, Platform, SessionSource
from hermes.gateway.chats.chat import ChatWork, GatewayChat
from hermes.gateway.gateway import Gateway
from hermes.gateway.store.inbox import Completion
from hermes.gateway.store.outbox import OutboxRow
from hermes.testing import RecordedRequest, ScriptedReply, text
from support.gateway_rig import GatewayRig, RunningGateway, SwitchedProvider
from support.waiting import wait_for, wait_until


def count_submits(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> list[TurnRequest]:
    """The turns that were submitted in a transaction of their own."""
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


def test_no_turn_needs_a_transaction_of_its_own(
    rig: GatewayRig, provider: SwitchedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, answer = threading.Event(), provider.script
    provider.script = lambda request: text(f"Answer to {request.last_user_text}", hold=hold)
    running = rig.start()
    alone = count_submits(running, monkeypatch)
    client = rig.client()
    for number in range(5):
        client.accepted(client.say(f"say {number}"))
    hold.set()
    assert client.hear(5) == [f"Answer to say {number}" for number in range(5)]
    provider.script = answer
    wait_until(lambda: not vars(running.gateway)["_chats"], "the end of the chat's work")
    assert client.ask("and now?") == "Answer to and now?"
    assert alone == []


def test_a_turn_is_on_disk_when_its_message_is_acknowledged(rig: GatewayRig, provider: SwitchedProvider) -> None:
    hold = threading.Event()
    provider.script = lambda request: text("Done.", hold=hold)
    rig.start()
    client = rig.client()
    client.accepted(client.say("hello"))
    with closing(sqlite3.connect(rig.home / "state.db")) as connection:
        found = connection.execute("SELECT request_key FROM turns WHERE state IN ('queued', 'running')").fetchall()
    assert found == [("gateway:1",)]
    hold.set()
    client.hear(1)


def test_a_full_queue_keeps_the_message_and_tries_again(
    rig: GatewayRig, provider: SwitchedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.gateway.chats.chat._FULL_SECONDS", 0.02)
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
    submit_with = running.gateway.dispatcher.submit_with

    def slow(request: TurnRequest, store: Any) -> TurnTicket | None:
        if request.message == "two":
            submitting.set()
            wait_for(go_on, "the command")
        return submit_with(request, store)

    monkeypatch.setattr(running.gateway.dispatcher, "submit_with", slow)
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


def count_finishes(running: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> list[Completion]:
    """The ends of messages that were stored in a transaction of their own."""
    alone: list[Completion] = []
    finish = running.gateway.inbox.finish

    def counted(completion: Completion) -> list[OutboxRow]:
        alone.append(completion)
        return finish(completion)

    monkeypatch.setattr(running.gateway.inbox, "finish", counted)
    return alone


def stored_rows(rig: GatewayRig) -> tuple[list[Any], list[Any]]:
    """The states of the messages, and those of their answers."""
    with closing(sqlite3.connect(rig.home / "state.db")) as connection:
        incoming = connection.execute("SELECT state FROM gateway_inbox ORDER BY number").fetchall()
        return incoming, connection.execute("SELECT state, content FROM gateway_outbox ORDER BY number").fetchall()


def test_an_answer_is_stored_with_the_end_of_its_turn(rig: GatewayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    running = rig.start()
    alone = count_finishes(running, monkeypatch)
    client = rig.client()
    assert [client.ask(f"say {number}") for number in range(3)] == [f"Answer to say {number}" for number in range(3)]
    answers = [("sent", f"Answer to say {number}") for number in range(3)]
    wait_until(lambda: stored_rows(rig) == ([("done",)] * 3, answers), "the outbox")
    assert alone == [] and not running.gateway.unsent


def test_an_answer_is_not_claimed_while_hooks_of_its_turn_run(rig: GatewayRig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[Any], list[Any]]] = []

    class Observer:
        @staticmethod
        def register(ctx: Any) -> None:
            def look(**_: Any) -> None:
                seen.append(stored_rows(rig))

            ctx.register_hook("post_llm_call", look)

    alone = count_finishes(rig.start(plugins=[Observer]), monkeypatch)
    assert rig.client().ask("hello") == "Answer to hello"
    assert seen == [([("queued",)], [])]
    assert len(alone) == 1


def test_a_turn_that_fails_stores_its_answer_by_itself(
    rig: GatewayRig, provider: SwitchedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.script = lambda request: text("")
    alone = count_finishes(rig.start(), monkeypatch)
    assert "did not work" in rig.client().ask("hello")
    assert len(alone) == 1
