"""``pre_gateway_dispatch``: plugins see every message before the check of its sender, and let no one in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermes.surfaces.gateway.store.users import GatewayUsers
from support.gateway_rig import GatewayRig
from support.waiting import wait_until

Decide = Callable[..., Any]

#: Alice alone is let in.
CLOSED = {"allowed_users": ["alice"]}


def plugin(decide: Decide, name: str = "dispatcher") -> type:
    """A plugin with one callback."""

    def register(ctx: Any) -> None:
        ctx.register_hook("pre_gateway_dispatch", decide)

    return type(name, (), {"register": staticmethod(register)})


class Recorder:
    """Notes every message, as a plugin does that keeps an archive of all chats."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, bool]] = []

    def __call__(self, event: Any, sender_state: str, pairing: bool, **_: Any) -> None:
        self.seen.append((event.source.user_id, event.text, sender_state, pairing))


@pytest.mark.parametrize("pairing", [True, False])
def test_messages_of_unknown_senders_are_seen_and_reach_no_session(rig: GatewayRig, pairing: bool) -> None:
    recorder = Recorder()
    rig.start(line=CLOSED, plugins=[plugin(recorder)], pairing=pairing)
    client = rig.client()
    client.accepted(client.say("I want a refund", "bob"))
    client.accepted(client.say("me too", "#room", type="group", user="eve"))
    assert client.ask("hello") == "Answer to hello"
    assert recorder.seen == [
        ("bob", "I want a refund", "unknown", pairing),
        ("eve", "me too", "unknown", pairing),
        ("alice", "hello", "known", pairing),
    ]
    assert len(rig.provider.requests) == 1 and "refund" not in str(rig.provider.requests[0].messages)
    assert len(client.texts("bob")) == int(pairing) and client.texts("#room") == []


def let_in(event: Any, **_: Any) -> dict[str, str]:
    event.internal = True
    event.source.role_authorized = True
    event.source.user_id = "alice"
    return {"action": "allow"}


def rewrite(**_: Any) -> dict[str, str]:
    return {"action": "rewrite", "text": "let me in"}


@pytest.mark.parametrize("decide", [let_in, rewrite])
def test_no_answer_lets_an_unknown_sender_in(rig: GatewayRig, decide: Decide) -> None:
    running = rig.start(line=CLOSED, plugins=[plugin(decide)], pairing=False)
    client = rig.client()
    client.accepted(client.say("hello", "bob"))
    client.accepted(client.say("hello again", "bob"))
    client.ask("hello")
    assert client.texts("bob") == [] and len(rig.provider.requests) == 1
    assert GatewayUsers(running.host.store).all() == []


def test_a_skipped_stranger_gets_no_code(rig: GatewayRig) -> None:
    def skip(event: Any, **_: Any) -> Any:
        return {"action": "skip", "reason": "handed over"} if event.source.user_id == "bob" else None

    rig.start(line=CLOSED, plugins=[plugin(skip)])
    client = rig.client()
    client.accepted(client.say("hello", "bob"))
    assert "approve" in client.ask("hello", "eve")
    assert client.texts("bob") == []


def test_strangers_are_shown_as_many_messages_a_minute_as_others(rig: GatewayRig) -> None:
    recorder = Recorder()
    rig.start(line=CLOSED, plugins=[plugin(recorder)], pairing=False, max_messages_per_minute=3)
    client = rig.client()
    for number in range(6):
        client.accepted(client.say(f"spam {number}", "bob"))
    client.ask("hello")
    assert [text for user, text, _, _ in recorder.seen if user == "bob"] == ["spam 0", "spam 1", "spam 2"]
    assert recorder.seen[-1][:3] == ("alice", "hello", "known")


def test_two_plugins_in_both_orders_see_the_same(rig: GatewayRig) -> None:
    first, last = Recorder(), Recorder()

    def skip(**_: Any) -> Any:
        return {"action": "skip"}

    rig.start(line=CLOSED, plugins=[plugin(first, "first"), plugin(skip, "skip"), plugin(last, "last")], pairing=False)
    client = rig.client()
    client.accepted(client.say("hello", "bob"))
    client.accepted(client.say("hello", "alice"))
    wait_until(lambda: len(last.seen) == 2, "both messages")
    assert first.seen == last.seen and rig.provider.requests == []


def test_what_a_command_sends_on_is_not_a_second_message(rig: GatewayRig) -> None:
    recorder = Recorder()
    rig.start(line=CLOSED, plugins=[plugin(recorder)])
    client = rig.client()
    assert client.ask("hello") == "Answer to hello"
    client.ask("/retry")
    wait_until(lambda: len(rig.provider.requests) == 2, "the second request")
    assert [text for _, text, _, _ in recorder.seen] == ["hello", "/retry"]
