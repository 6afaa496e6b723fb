"""Messages of a platform become turns: answered in order, once, in the session of their chat."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest

from hermes.surfaces.gateway.adapter import MessageEvent, SessionSource
from hermes.testing import RecordedRequest, ScriptedReply, by_step, failure, text, tool_call
from support.gateway_rig import GatewayRig, SwitchedProvider
from support.waiting import wait_for, wait_until


def rows(rig: GatewayRig, query: str) -> list[Any]:
    with closing(sqlite3.connect(rig.home / "state.db")) as connection:
        return connection.execute(query).fetchall()


class Gate:
    """A model that waits with its answer to messages that begin with ``hold``."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.asked: list[str] = []

    def __call__(self, request: RecordedRequest) -> ScriptedReply:
        said = request.last_user_text
        self.asked.append(said)
        return text(f"Answer to {said}", hold=self.open) if said.startswith("hold") else text(f"Answer to {said}")

    def wait_for(self, said: str) -> None:
        wait_until(lambda: said in self.asked, f"the model being asked {said!r}")


@pytest.fixture
def gate(provider: SwitchedProvider) -> Gate:
    gate = Gate()
    provider.script = gate
    return gate


def test_a_message_is_answered(rig: GatewayRig) -> None:
    rig.start()
    client = rig.client()
    assert client.ask("hello") == "Answer to hello"
    assert client.received[0]["reply_to"] == "m1"


def test_messages_of_a_chat_are_answered_in_order_and_others_beside_them(rig: GatewayRig, gate: Gate) -> None:
    rig.start()
    client = rig.client()
    for said in ("hold one", "two", "three"):
        client.say(said)
    gate.wait_for("hold one")
    assert client.ask("hello", "bob") == "Answer to hello"
    assert client.texts() == []
    gate.open.set()
    assert client.hear(3) == ["Answer to hold one", "Answer to two", "Answer to three"]


def test_a_message_is_on_disk_before_it_is_acknowledged(rig: GatewayRig, gate: Gate) -> None:
    rig.start()
    client = rig.client()
    client.say("hold one")
    client.accepted(client.say("two"))
    assert rows(rig, "SELECT delivery, state FROM gateway_inbox ORDER BY number") == [
        ("m1", "queued"),
        ("m2", "queued"),
    ]
    gate.open.set()
    client.hear(2)
    wait_until(lambda: rows(rig, "SELECT DISTINCT state FROM gateway_outbox") == [("sent",)], "the outbox")
    assert rows(rig, "SELECT DISTINCT state FROM gateway_inbox") == [("done",)]


def test_a_delivery_that_is_repeated_is_one_turn(rig: GatewayRig) -> None:
    rig.start()
    client = rig.client()
    client.accepted(client.say("hello", id="same"))
    client.accepted(client.say("hello", id="same"))
    client.hear(1)
    client.say("hello again", id="same", chat="bob")  # ids are those of a chat
    client.hear(1, "bob")
    assert client.ask("next") == "Answer to next"
    assert client.texts() == ["Answer to hello", "Answer to next"]
    assert len(rig.provider.requests) == 3


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ({"chat": "alice"}, {"chat": "alice"}, True),
        ({"chat": "alice"}, {"chat": "bob"}, False),
        ({"chat": "alice"}, {"chat": "alice", "thread": "t"}, False),
        ({"chat": "#room", "type": "group", "user": "bob"}, {"chat": "#room", "type": "group", "user": "eve"}, False),
        (
            {"chat": "#room", "type": "group", "user": "bob", "thread": "t"},
            {"chat": "#room", "type": "group", "user": "eve", "thread": "t"},
            True,
        ),
    ],
)
def test_sessions_are_those_of_platform_chat_thread_and_user(
    rig: GatewayRig, first: dict[str, Any], second: dict[str, Any], shared: bool
) -> None:
    rig.start()
    client = rig.client()
    client.ask("first", **first)
    client.ask("second", **second)
    assert ("Answer to first" in str(rig.provider.requests[1].messages)) is shared


def test_every_user_is_a_principal_and_the_owner_is_the_owner(rig: GatewayRig) -> None:
    rig.start()
    client = rig.client()
    client.ask("hello")
    client.ask("hello", "bob")
    client.ask("hello", "#room", type="group", user="eve", thread="t")
    found = dict(rows(rig, "SELECT principal, cwd FROM sessions"))
    assert set(found) == {"", "line:bob", "line:#room"}
    assert found[""] == str(rig.workdir)
    assert found["line:bob"] == str(rig.home / "principals" / "line%3Abob" / "workspace")
    assert {row[0] for row in rows(rig, "SELECT platform FROM sessions")} == {"line"}


def test_a_new_message_interrupts_by_setting_and_stale_text_is_never_sent(rig: GatewayRig, gate: Gate) -> None:
    rig.start(when_busy="interrupt")
    client = rig.client()
    client.say("hold one")
    gate.wait_for("hold one")
    assert client.ask("two") == "Answer to two"
    gate.open.set()
    assert client.ask("three") == "Answer to three"
    assert client.texts() == ["Answer to two", "Answer to three"]


def test_a_new_message_steers_by_setting(rig: GatewayRig, provider: SwitchedProvider) -> None:
    reached, go = threading.Event(), threading.Event()

    class Slow:
        @staticmethod
        def register(ctx: Any) -> None:
            def wait(args: dict[str, Any], **_: Any) -> str:
                reached.set()
                go.wait()
                return "{}"

            ctx.register_tool("slow", "hermes-cli", {"description": "x", "parameters": {}}, wait)

    provider.script = by_step(tool_call("slow", {}), text("Done"))
    rig.start(when_busy="steer", plugins=[Slow], options={"toolsets": ["hermes-cli"]})
    client = rig.client()
    client.say("work")
    assert reached.wait(60)
    client.accepted(client.say("hurry up"))
    go.set()
    assert client.hear(1) == ["Done"]
    assert "hurry up" in str(provider.requests[1].messages)
    wait_until(lambda: rows(rig, "SELECT DISTINCT state FROM gateway_inbox") == [("done",)], "both messages done")
    assert len(client.texts()) == 1


def test_what_a_turn_did_not_hear_any_more_is_a_turn_of_its_own(rig: GatewayRig) -> None:
    answered, go = threading.Event(), threading.Event()

    class Late:
        @staticmethod
        def register(ctx: Any) -> None:
            def wait(**_: Any) -> None:
                answered.set()
                go.wait()

            ctx.register_hook("post_llm_call", wait, timeout=60)

    rig.start(when_busy="steer", plugins=[Late])
    client = rig.client()
    client.say("one")
    wait_for(answered, "the answer of the first turn")
    client.accepted(client.say("two"))
    go.set()
    assert client.hear(2) == ["Answer to one", "Answer to two"]


def test_long_answers_come_in_pieces(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = lambda _: text("one two three four")

    class Short:
        @staticmethod
        def register(ctx: Any) -> None:
            from support.line_platform import LineAdapter

            ctx.register_platform("line", "Lines", LineAdapter, lambda: True, max_message_length=9)

    rig.start(plugins=[Short])
    client = rig.client()
    client.say("hello")
    assert client.hear(3) == ["one two", "three", "four"]
    assert [one["reply_to"] for one in client.received] == ["m1", None, None]


def test_a_failed_turn_is_reported_without_its_words_to_others(rig: GatewayRig, provider: SwitchedProvider) -> None:
    provider.script = lambda _: failure(400, "the secret reason")
    rig.start()
    client = rig.client()
    assert "the secret reason" in client.ask("hello")
    told = client.ask("hello", "bob")
    assert told.startswith("That did not work (") and "secret" not in told


def test_a_failure_of_a_message_without_a_person_names_where_it_came_from(
    rig: GatewayRig, provider: SwitchedProvider
) -> None:
    provider.script = lambda _: failure(400, "the secret reason")
    running, client = rig.start(), rig.client()
    adapter = running.gateway.adapters["line"]
    source = adapter.build_source(chat_id="build", chat_type="dm", user_id="build", user_name="webhook build")
    running.on_loop(adapter.handle_message(MessageEvent("it failed", source=source, internal=True)))
    [told] = client.hear(1, "build")
    assert told.startswith("What webhook build sent could not be answered (") and "secret" not in told


def test_limits_of_length_rate_and_waiting_messages(rig: GatewayRig, gate: Gate) -> None:
    rig.start(max_message_chars=10, max_queued=2, max_messages_per_minute=5)
    client = rig.client()
    assert "at most 10 characters" in client.ask("x" * 11)
    client.say("hold")
    gate.wait_for("hold")
    client.accepted(client.say("two"))
    assert "wait already" in client.ask("three")
    client.accepted(client.say("one", "bob"))
    client.hear(1, "bob")
    for _ in range(4):
        client.say("again", "bob")
    client.wait(
        lambda _: any("Too many messages" in one for one in client.texts("bob")) or len(client.texts("bob")) > 4, "it"
    )
    assert "Too many messages" in client.ask("again", "bob")
    gate.open.set()


def test_a_flood_of_messages_makes_no_flood_of_notices(rig: GatewayRig) -> None:
    rig.start(max_messages_per_minute=2, max_message_chars=10)
    client = rig.client()
    for number in range(200):
        client.say("x" * 11, "bob", id=f"b{number}")
    client.accepted("b199")
    assert client.ask("hello") == "Answer to hello"  # what was refused before has been answered by now
    assert 1 <= len(client.texts("bob")) <= 3
    assert "at most 10 characters" in client.texts("bob")[0]


def test_an_interrupted_turn_before_it_was_submitted(rig: GatewayRig) -> None:
    """Stopping finds the chat between acceptance and submission, too: nothing hangs."""
    rig.start(when_busy="interrupt")
    client = rig.client()
    for number in range(8):
        client.say(f"message {number}")
    client.wait(lambda _: "Answer to message 7" in client.texts(), "the last answer")
    wait_until(lambda: rows(rig, "SELECT DISTINCT state FROM gateway_inbox") == [("done",)], "all messages done")


def test_plugins_see_the_gateway_under_the_published_names(rig: GatewayRig) -> None:
    seen: list[Any] = []

    class Policy:
        @staticmethod
        def register(ctx: Any) -> None:
            def decide(event: Any, gateway: Any, session_store: Any, **_: Any) -> Any:
                source: SessionSource = event.source
                key = gateway._session_key_for_source(source)
                entry = session_store.get_or_create_session(source)
                seen.append((key, entry.session_key == key, session_store.peek_session_id(key) == entry.session_id))
                if event.text.startswith("aside"):
                    session_store.append_to_transcript(entry.session_id, {"role": "user", "content": event.text})
                    return {"action": "skip", "reason": "not for the bot"}
                if event.text.startswith("plain"):
                    return {"action": "rewrite", "text": f"rewritten {event.text}"}
                return {"action": "allow"} if event.text == "ok" else None

            ctx.register_hook("pre_gateway_dispatch", decide)

    running = rig.start(plugins=[Policy])
    client = rig.client()
    client.accepted(client.say("aside: the sky is green"))
    assert client.ask("plain").startswith("Answer to rewritten plain")
    assert client.ask("ok") == "Answer to ok"
    assert len(client.texts()) == 2
    assert seen == [("agent:main:line:dm:alice", True, True)] * 3
    assert "the sky is green" in str(rig.provider.requests[0].messages)
    assert running.host.plugins.gateway is running.gateway


def test_hooks_know_sender_and_platform(rig: GatewayRig) -> None:
    seen: list[tuple[str, str]] = []

    class Observer:
        @staticmethod
        def register(ctx: Any) -> None:
            def note(sender_id: str, platform: str) -> None:
                seen.append((sender_id, platform))

            ctx.register_hook("pre_llm_call", note)

    rig.start(plugins=[Observer])
    client = rig.client()
    client.ask("hello", "#room", type="group", user="eve")
    assert seen == [("eve", "line")]


def test_a_tool_knows_its_session_by_the_task(rig: GatewayRig, provider: SwitchedProvider) -> None:
    """Published plugins find the chat of a tool call by its ``task_id``, which is the id of the session."""
    known: list[tuple[str, str]] = []
    seen: list[tuple[str, str]] = []

    class Handover:
        @staticmethod
        def register(ctx: Any) -> None:
            def hand_over(args: dict[str, Any], **options: Any) -> str:
                seen.append((options["task_id"], options["session_id"]))
                return "{}"

            def arrived(event: Any, gateway: Any, session_store: Any, **_: Any) -> None:
                key = gateway._session_key_for_source(event.source)
                known.append((key, session_store._entries[key].session_id))

            ctx.register_tool("hand_over", "hermes-cli", {"description": "x", "parameters": {}}, hand_over)
            ctx.register_hook("pre_gateway_dispatch", arrived)

    provider.script = by_step(tool_call("hand_over", {}), text("Done"))
    rig.start(plugins=[Handover], options={"toolsets": ["hermes-cli"]})
    client = rig.client()
    assert [client.ask("one"), client.ask("two")] == ["Done", "Done"]
    assert [task for task, _ in seen] == [session for _, session in seen] == [session for _, session in known]
