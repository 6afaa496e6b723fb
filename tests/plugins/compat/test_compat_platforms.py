"""Platform adapters under the names that published adapters import: data, base class, registration."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from hermes.plugins.compat.messages import DeliveryTarget
from hermes.surfaces.gateway.adapter import (
    BasePlatformAdapter,
    MessageEvent,
    Platform,
    PlatformConfig,
    ProcessingOutcome,
    SendResult,
    SessionSource,
    adapter_config,
    build_session_key,
    entry_of,
    split_text,
)
from support.plugin_rig import Rig

PUBLISHED = """
from gateway.config import Platform, PlatformConfig
from gateway.platforms.base import BasePlatformAdapter, MessageEvent, MessageType, ProcessingOutcome, SendResult
from gateway.platform_registry import PlatformEntry, platform_registry
from gateway.session import SessionSource, build_session_key
from gateway.run import _gateway_runner_ref

class Adapter(BasePlatformAdapter):
    def __init__(self, config):
        super().__init__(config=config, platform=Platform("mine"))
    async def connect(self):
        self._mark_connected()
        return True
    async def disconnect(self):
        self._mark_disconnected()
    async def send(self, chat_id, content, reply_to=None, metadata=None):
        return SendResult(success=True, message_id="1")
    async def get_chat_info(self, chat_id):
        return {"name": chat_id, "type": "dm"}

def register(ctx):
    ctx.register_platform("mine", "Mine", lambda config: Adapter(config), lambda: True, emoji="*",
                          max_message_length=40, an_option_of_tomorrow=1)
    ctx.register_command("seen", lambda raw: (platform_registry.get("mine").emoji, _gateway_runner_ref()))
"""


class Quiet(BasePlatformAdapter):
    """An adapter that remembers what it is asked to send."""

    def __init__(self) -> None:
        super().__init__(PlatformConfig(enabled=True), "quiet")
        self.sent: list[str] = []
        self.seen: list[Any] = []

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        return True

    async def disconnect(self) -> None:
        pass

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        self.sent.append(content)
        return SendResult(True)

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {}

    async def on_processing_complete(self, event: MessageEvent, outcome: ProcessingOutcome) -> None:
        self.seen.append(outcome)


def test_a_published_adapter_loads_and_registers(rig: Rig) -> None:
    rig.write("p", PUBLISHED)
    plugins = rig.load(enabled=["p"])
    assert plugins.plugins["p"].error == ""
    [offer] = plugins.offers("platform")
    entry = entry_of(offer)
    assert (entry.name, entry.label, entry.max_message_length) == ("mine", "Mine", 40)
    adapter = entry.adapter_factory(PlatformConfig())
    assert isinstance(adapter, BasePlatformAdapter)
    assert (adapter.platform, adapter.name, adapter.is_connected) == ("mine", "Mine", False)
    plugins.gateway = "the gateway"
    assert plugins.commands["seen"].handler("") == ("*", "the gateway")


def test_a_platform_is_a_name_that_looks_like_an_enum() -> None:
    assert Platform("IRC") == Platform.IRC == "irc"
    assert (Platform("my-chat").value, Platform("my-chat").name) == ("my-chat", "MY_CHAT")
    assert {Platform.TELEGRAM: 1}[Platform("telegram")] == 1
    with pytest.raises(ValueError, match="needs a name"):
        Platform(" ")


@pytest.mark.parametrize(
    ("source", "options", "key"),
    [
        ({"chat_id": "7"}, {}, "agent:main:irc:dm:7"),
        ({"chat_id": "7", "thread_id": "3"}, {}, "agent:main:irc:dm:7:3"),
        ({"chat_id": "#a", "chat_type": "group", "user_id": "bob"}, {}, "agent:main:irc:group:#a:bob"),
        (
            {"chat_id": "#a", "chat_type": "group", "user_id": "bob"},
            {"group_sessions_per_user": False},
            "agent:main:irc:group:#a",
        ),
        ({"chat_id": "#a", "chat_type": "group", "user_id": "bob", "thread_id": "t"}, {}, "agent:main:irc:group:#a:t"),
        (
            {"chat_id": "#a", "chat_type": "group", "user_id": "bob", "thread_id": "t"},
            {"thread_sessions_per_user": True},
            "agent:main:irc:group:#a:t:bob",
        ),
    ],
)
def test_session_keys(source: dict[str, Any], options: dict[str, Any], key: str) -> None:
    assert build_session_key(SessionSource(Platform("irc"), **source), **options) == key


def test_a_source_survives_being_stored() -> None:
    source = SessionSource(Platform("irc"), "7", user_id="bob", guild_id="g")
    assert SessionSource.from_dict({**source.to_dict(), "a_field_of_tomorrow": 1}) == source


@pytest.mark.parametrize(
    ("text", "command", "args"),
    [
        ("/new", "new", ""),
        (" /Model@hermes_bot  big one", "model", "big one"),
        ("/run —fast", "run", "--fast"),
        ("/etc/hosts is a file", None, "is a file"),
        ("hello", None, "hello"),
    ],
)
def test_commands_in_messages(text: str, command: str | None, args: str) -> None:
    event = MessageEvent(text)
    assert (event.get_command(), event.get_command_args()) == (command, args)


def test_long_texts_are_cut_between_words() -> None:
    assert split_text("one two three", 8) == ["one two", "three"]
    assert split_text("x" * 9, 4) == ["xxxx", "xxxx", "x"]
    assert split_text("short", 100) == ["short"] and split_text("", 5) == [""]
    # Telegram counts UTF-16 units, of which an emoji has two.
    halves = split_text("\U0001f600" * 5, 4, lambda text: len(text.encode("utf-16-le")) // 2)
    assert halves == ["\U0001f600" * 2, "\U0001f600" * 2, "\U0001f600"]


def test_an_adapter_gets_its_settings() -> None:
    settings = GatewayPlatformConfig(token="t", home_channel="#ops", extra={"server": "s"})
    config = adapter_config("irc", settings)
    assert (config.enabled, config.token, config.api_key, config.extra) == (True, "t", None, {"server": "s"})
    assert config.home_channel is not None and config.home_channel.chat_id == "#ops"
    config.extra["server"] = "other"
    assert settings.extra == {"server": "s"}


def test_messages_reach_the_gateway_and_its_outcome_the_adapter() -> None:
    adapter = Quiet()
    event = MessageEvent("hello", source=adapter.build_source("7", user_id="bob"), message_id="m")
    ran: list[str] = []

    async def answer_at_once(event: MessageEvent) -> str:
        return f"got {event.text}"

    async def run_turn(event: MessageEvent, key: str) -> ProcessingOutcome:
        ran.append(key)
        return ProcessingOutcome.SUCCESS

    async def scenario() -> None:
        with pytest.raises(RuntimeError, match="not run by a gateway"):
            await adapter.handle_message(event)
        adapter.set_message_handler(answer_at_once)
        adapter.set_turn_runner(run_turn)
        await adapter.handle_message(event)
        await adapter._process_message_background(event, "key")  # pyright: ignore[reportPrivateUsage]
        await adapter.send_clarify("7", "Which?", ["a", "b"])

    asyncio.run(scenario())
    assert ran == ["key"] and adapter.seen == [ProcessingOutcome.SUCCESS]
    assert adapter.sent == ["got hello", "Which?\n1. a\n2. b\nAnswer with a number or in your own words."]


def test_adapters_ask_how_long_a_message_may_be() -> None:
    quiet = Quiet()
    assert (quiet.max_message_length_for_chat("c"), quiet.message_len_fn_for_chat("c")("ab")) == (4_096, 2)
    quiet.MAX_MESSAGE_LENGTH = 400
    assert quiet.max_message_length_for_chat("c") == 400


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("irc", DeliveryTarget(Platform("irc"))),
        ("irc:#room", DeliveryTarget(Platform("irc"), "#room", is_explicit=True)),
        ("slack:C1:17.5", DeliveryTarget(Platform("slack"), "C1", "17.5", is_explicit=True)),
        ("origin", DeliveryTarget(Platform("irc"), "7", is_origin=True)),
    ],
)
def test_where_something_is_delivered(target: str, found: DeliveryTarget) -> None:
    parsed = DeliveryTarget.parse(target, SessionSource(Platform("irc"), "7"))
    assert (parsed, parsed.to_string()) == (found, target)


def test_what_comes_from_no_chat_is_delivered_here() -> None:
    assert DeliveryTarget.parse("origin") == DeliveryTarget(Platform.LOCAL, is_origin=True)
