"""Adapters that fail: restarted with backoff, kept from the others; and messages whose sending fails."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from hermes.surfaces.gateway.adapter import (
    BasePlatformAdapter,
    MessageEvent,
    PlatformConfig,
    ProcessingOutcome,
    SendResult,
)
from hermes.surfaces.gateway.store.outbox import Outbox, OutgoingMessage
from support.gateway_rig import GatewayRig, RunningGateway
from support.line_platform import LineAdapter
from support.waiting import wait_until


class Scripted(BasePlatformAdapter):
    """Connects and sends as a test says. The last entry of a list counts for all later ones."""

    made: list[Scripted]

    def __init__(self, config: PlatformConfig, connects: list[Any], sends: list[Any]) -> None:
        super().__init__(config, "other")
        self.connects, self.sends = connects, sends
        self.sent: list[str] = []

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        found = _next(self.connects)
        if isinstance(found, BaseException):
            raise found
        if isinstance(found, str):
            self._set_fatal_error("config", found, retryable=False)
            return False
        if found:
            self._mark_connected()
        return found

    async def disconnect(self) -> None:
        raise OSError("it cannot even say goodbye")

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        self.sent.append(content)
        found = _next(self.sends)
        if isinstance(found, BaseException):
            raise found
        return found

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {}


def _next(entries: list[Any]) -> Any:
    return entries.pop(0) if len(entries) > 1 else entries[0]


class Other:
    """A second platform, whose adapters are made by a test's script."""

    name = "other-platform"

    def __init__(self, connects: list[Any] | None = None, sends: list[Any] | None = None, **options: Any) -> None:
        self._connects, self._sends = connects or [True], sends or [SendResult(True)]
        self._options = options
        self.made: list[Scripted] = []

    def register(self, ctx: Any) -> None:
        ctx.register_platform("other", "Other", self.make, lambda: True, **self._options)

    def make(self, config: PlatformConfig) -> Scripted:
        self.made.append(Scripted(config, self._connects, self._sends))
        return self.made[-1]


def start(rig: GatewayRig, other: Other, **settings: Any) -> RunningGateway:
    settings = {"others": {"other": GatewayPlatformConfig(allowed_users=["*"])}, **settings}
    return rig.start(platforms=("line", "other"), plugins=[other], **settings)


def state(running: RunningGateway) -> Any:
    return next(one for one in running.gateway.statuses if one.name == "other")


@pytest.mark.parametrize(
    "failure", [ConnectionError("no network"), SystemExit(3), asyncio.CancelledError(), False, TypeError("a bug")]
)
def test_an_adapter_that_does_not_connect_is_tried_again_and_others_work(rig: GatewayRig, failure: Any) -> None:
    other = Other(connects=[failure, failure, True])
    running = start(rig, other)
    client = rig.client()
    assert client.ask("hello") == "Answer to hello"
    wait_until(lambda: state(running).state == "connected", "the third attempt")
    assert (state(running).restarts, len(other.made)) == (2, 3)
    assert client.ask("still there?") == "Answer to still there?"


def test_an_adapter_whose_settings_are_wrong_is_not_tried_again(rig: GatewayRig) -> None:
    other = Other(connects=["the token sk-abcdefghijklmnopqrst is wrong"])
    running = start(rig, other)
    wait_until(lambda: state(running).state == "failed", "the failure")
    assert "is wrong" in state(running).error and "sk-abc" not in state(running).error
    assert rig.client().ask("hello") == "Answer to hello"
    assert len(other.made) == 1


def test_an_adapter_that_lacks_a_method_is_not_tried_again(rig: GatewayRig) -> None:
    class Unfinished(BasePlatformAdapter):
        """Has no ``send``."""

        async def connect(self, *, is_reconnect: bool = False) -> bool:
            return True

    class Maker(Other):
        def make(self, config: PlatformConfig) -> Any:
            return Unfinished(config, "other")  # pyright: ignore[reportAbstractUsage]

    running = start(rig, Maker())
    wait_until(lambda: state(running).state == "failed", "the failure")
    assert "abstract" in state(running).error and "send" in state(running).error


def test_a_lost_connection_is_made_again(rig: GatewayRig) -> None:
    other = Other()
    running = start(rig, other)
    wait_until(lambda: state(running).state == "connected", "the connection")

    async def lose() -> None:
        other.made[0]._set_fatal_error("lost", "the cable is out", retryable=True)  # pyright: ignore[reportPrivateUsage]
        await other.made[0]._notify_fatal_error()  # pyright: ignore[reportPrivateUsage]

    running.on_loop(lose())
    wait_until(lambda: len(other.made) == 2 and state(running).state == "connected", "the second connection")


def outgoing(running: RunningGateway, *texts: str) -> Outbox:
    outbox = Outbox(running.host.store)
    outbox.add(*(OutgoingMessage(text, "other", "chat", text) for text in texts))
    return outbox


def settled(outbox: Outbox, key: str) -> tuple[str, int]:
    wait_until(lambda: (row := outbox.find(key)) is not None and row.state not in ("waiting", "sending"), key)
    row = outbox.find(key)
    assert row is not None
    return row.state, row.attempts


def test_what_did_not_arrive_is_sent_again_and_holds_back_what_follows(rig: GatewayRig) -> None:
    other = Other(sends=[SendResult(False, error="busy", retryable=True, retry_after=0.01), SendResult(True)])
    outbox = outgoing(start(rig, other), "one", "two")
    assert settled(outbox, "two") == ("sent", 2)
    assert settled(outbox, "one") == ("sent", 2)
    assert other.made[0].sent == ["one", "one", "two"]


def test_what_may_have_arrived_is_not_sent_again(rig: GatewayRig) -> None:
    other = Other(sends=[ConnectionResetError("gone"), SystemExit(1), SendResult(True)])
    running = start(rig, other)
    outbox = outgoing(running, "one", "two", "three")
    assert settled(outbox, "three") == ("sent", 1)
    assert settled(outbox, "one") == ("unknown", 1) and settled(outbox, "two") == ("unknown", 1)
    assert other.made[0].sent == ["one", "two", "three"]
    row = outbox.find("one")
    assert row is not None
    outbox.retry(row.number)  # the owner decides
    wait_until(lambda: other.made[0].sent == ["one", "two", "three", "one"], "the second sending")


def test_a_refusal_is_final_and_so_is_the_last_attempt(rig: GatewayRig) -> None:
    busy = SendResult(False, error="busy", retryable=True, retry_after=0.001)
    other = Other(sends=[SendResult(False, error="forbidden"), busy])
    outbox = outgoing(start(rig, other, max_attempts=3, delivery_timeout=0.001), "one", "two")
    assert settled(outbox, "one") == ("failed", 1)
    assert settled(outbox, "two") == ("failed", 3)


def test_a_platform_that_is_away_for_minutes_gets_its_messages_later(rig: GatewayRig) -> None:
    busy = SendResult(False, error="502", retryable=True, retry_after=0.001)
    other = Other(sends=[*[busy] * 8, SendResult(True)])
    outbox = outgoing(start(rig, other, max_attempts=3), "one", "two")
    assert settled(outbox, "two")[0] == "sent"
    assert settled(outbox, "one") == ("sent", 9)
    assert other.made[0].sent == [*["one"] * 9, "two"]


AWAY = SendResult(False, error="not here", retryable=True)


def tried(outbox: Outbox, key: str) -> None:
    """Wait until sending failed once and the message waits for its next attempt."""
    wait_until(lambda: (row := outbox.find(key)) is not None and (row.state, row.attempts) == ("waiting", 1), key)


def write_from_chat(running: RunningGateway, other: Other) -> None:
    source = other.made[-1].build_source(chat_id="chat", chat_type="dm", user_id="chat", user_name="chat")
    running.on_loop(other.made[-1].handle_message(MessageEvent("I am back", source=source)))


def test_who_writes_again_gets_what_waits_at_once_and_in_order(
    rig: GatewayRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.surfaces.gateway.deliveries.FIRST_PAUSE", 300.0)
    other = Other(sends=[AWAY, SendResult(True)])
    running = start(rig, other)
    outbox = outgoing(running, "one", "two")
    tried(outbox, "one")
    write_from_chat(running, other)
    assert settled(outbox, "one") == ("sent", 2)
    wait_until(lambda: len(other.made[0].sent) == 4, "the answer")
    assert other.made[0].sent == ["one", "one", "two", "Answer to I am back"]


def test_a_platform_that_is_connected_again_gets_what_waits_at_once(
    rig: GatewayRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.surfaces.gateway.deliveries.FIRST_PAUSE", 300.0)
    other = Other(sends=[AWAY, SendResult(True)])
    outbox = outgoing(start(rig, other), "one")
    tried(outbox, "one")
    rig.running[0].stop()
    outbox = Outbox(start(rig, other).host.store)
    assert settled(outbox, "one") == ("sent", 2)


def test_a_pause_that_the_platform_asked_for_is_kept(rig: GatewayRig) -> None:
    other = Other(sends=[SendResult(False, error="slow down", retryable=True, retry_after=300.0), SendResult(True)])
    running = start(rig, other)
    outbox = outgoing(running, "one")
    tried(outbox, "one")
    write_from_chat(running, other)
    wait_until(lambda: outbox.counts()["waiting"] == 2, "the answer, which waits behind it")
    assert other.made[0].sent == ["one"]


def test_the_same_key_is_sent_once(rig: GatewayRig) -> None:
    other = Other()
    running = start(rig, other)
    outbox = outgoing(running, "one")
    settled(outbox, "one")
    outgoing(running, "one", "two")
    settled(outbox, "two")
    assert other.made[0].sent == ["one", "two"]


def test_an_adapter_may_be_with_its_turns_and_fail_there(rig: GatewayRig) -> None:
    seen: list[Any] = []

    class Curious(Scripted):
        async def on_processing_start(self, event: MessageEvent) -> None:
            seen.append(("start", event.raw_message))

        async def on_processing_complete(self, event: MessageEvent, outcome: ProcessingOutcome) -> None:
            seen.append((outcome.value, list(self.sent)))
            if event.text == "fail":
                raise RuntimeError("a bug after the turn")

        async def send_typing(self, chat_id: str, metadata: dict[str, Any] | None = None) -> None:
            raise OSError("no typing here")

    class Jealous(Curious):
        async def _process_message_background(self, event: MessageEvent, session_key: str) -> None:
            raise RuntimeError("it never calls the base class")

    other = Other()
    made: list[Scripted] = []

    def make(config: PlatformConfig) -> Scripted:
        kind = Jealous if config.extra.get("jealous") else Curious
        made.append(kind(config, [True], [SendResult(True)]))
        return made[-1]

    other.make = make  # pyright: ignore[reportAttributeAccessIssue]
    running = start(rig, other)
    wait_until(lambda: state(running).state == "connected", "the connection")

    async def say(text: str) -> None:
        source = made[0].build_source("chat", user_id="bob")
        await made[0].handle_message(MessageEvent(text, source=source, raw_message=SimpleNamespace(text=text)))

    running.on_loop(say("hello"))
    wait_until(lambda: len(seen) == 2, "the turn")
    assert seen[0][1].text == "hello"
    assert seen[1] == ("success", ["Answer to hello"])
    running.on_loop(say("fail"))
    running.on_loop(say("again"))
    wait_until(lambda: made[0].sent == ["Answer to hello", "Answer to fail", "Answer to again"], "the answers")
    Curious._process_message_background = Jealous._process_message_background  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]
    running.on_loop(say("alone"))
    wait_until(lambda: made[0].sent[-1] == "Answer to alone", "the turn without its adapter")


def test_what_an_adapter_sets_around_a_turn_reaches_its_hooks(rig: GatewayRig) -> None:
    """Published adapters keep who calls in context variables, and know a final answer by ``_send_with_retry``."""
    caller: ContextVar[str] = ContextVar("caller", default="")
    left_over: ContextVar[str] = ContextVar("left_over", default="")
    seen: list[tuple[str, str]] = []
    final: list[tuple[str, str]] = []

    class Careful(LineAdapter):
        async def handle_message(self, event: MessageEvent) -> None:
            caller.set(f"hands over {event.text}")
            await super().handle_message(event)

        async def _process_message_background(self, event: MessageEvent, session_key: str) -> None:
            token = caller.set(f"asked {event.text}")
            try:
                await super()._process_message_background(event, session_key)
            finally:
                caller.reset(token)

        async def _send_with_retry(
            self, chat_id: str, content: str, reply_to: str | None = None, metadata: Any = None, **_: Any
        ) -> SendResult:
            final.append((content, caller.get()))
            return await super()._send_with_retry(chat_id, content, reply_to, metadata)

    class Plugin:
        @staticmethod
        def register(ctx: Any) -> None:
            def hook(**_: Any) -> None:
                seen.append((caller.get(), left_over.get()))
                left_over.set("of another turn")

            ctx.register_platform("line", "Lines", Careful, lambda: True)
            ctx.register_hook("pre_llm_call", hook)

    outbox = Outbox(rig.start(plugins=[Plugin]).host.store)
    client = rig.client()
    for number in range(4):
        assert client.ask(f"m{number}", f"chat{number % 2}") == f"Answer to m{number}"
        settled(outbox, f"gateway:{number + 1}:0")  # else the next answer of the chat waits for it, and is sent apart
    assert seen == [(f"asked m{number}", "") for number in range(4)]
    assert final == [(f"Answer to m{number}", f"asked m{number}") for number in range(4)]
