"""The Telegram platform on a local Bot API server, which the official client library accepts, too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from typing import Any

import pytest
from telegram import Bot as OfficialBot

from hermes.base.errors import ConfigError
from hermes.bundled.platforms.telegram.adapter import TelegramAdapter
from hermes.bundled.platforms.telegram.formatting import to_html
from hermes.bundled.platforms.telegram.settings import TelegramSettings
from hermes.bundled.platforms.telegram.updates import Bot, read_message, utf16_length
from hermes.plugins.http import PluginHttp
from hermes.surfaces.gateway.adapter import PlatformConfig
from support.adapter_rig import running_adapter
from support.bot_api import BOT, TOKEN, BotApiServer, bot_api
from support.waiting import wait_until

US = Bot(123456, "hermes_test_bot")
GROUP = {"id": -100, "type": "supergroup", "title": "Garden"}


@pytest.fixture
def server() -> Generator[BotApiServer]:
    with bot_api() as found:
        yield found


def adapter(server: BotApiServer, http: PluginHttp, token: str = TOKEN, **settings: Any) -> TelegramAdapter:
    block = {"base_url": server.base_url, **settings}
    return TelegramAdapter(
        PlatformConfig(extra=block), TelegramSettings.read(block, env={"TELEGRAM_BOT_TOKEN": token}), http
    )


def test_the_official_library_accepts_the_server(server: BotApiServer) -> None:
    async def use() -> None:
        async with OfficialBot(TOKEN, base_url=f"{server.base_url}/bot") as bot:
            assert bot.username == BOT["username"]
            server.say("hello")
            [update] = await bot.get_updates(timeout=10)
            assert update.message is not None and update.message.text == "hello"
            sent = await bot.send_message(42, "hi", reply_to_message_id=update.message.message_id)
            assert sent.text == "hi"
            await bot.send_chat_action(42, "typing")
            assert await bot.get_updates(offset=update.update_id + 1) == ()

    asyncio.run(use())


def test_a_conversation(server: BotApiServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        update = server.say("What grows best?")
        event = rig.next_event()
        assert event.source is not None
        assert (event.text, event.message_id, event.platform_update_id) == (
            "What grows best?",
            str(update["message"]["message_id"]),
            update["update_id"],
        )
        assert (event.source.chat_id, event.source.chat_type, event.source.user_id) == ("42", "dm", "42")
        assert event.source.user_name == "ann"
        wait_until(lambda: not server.updates, "the update to be acknowledged")
        rig.call(rig.adapter.send_typing("42"))
        result = rig.send("42", "**Basil** & thyme", event.message_id)
        assert result.success and result.message_id
        [sent] = server.called("sendMessage")
        assert sent == {"chat_id": "42", "text": "<b>Basil</b> &amp; thyme", "parse_mode": "HTML"}
        assert rig.call(rig.adapter.edit_message("42", result.message_id, "Basil")).success
        assert rig.call(rig.adapter.delete_message("42", result.message_id))
        assert rig.call(rig.adapter.get_chat_info("42")) == {"name": "Ann", "type": "dm"}
        assert server.called("deleteWebhook") == [{"drop_pending_updates": False}]


def test_groups_topics_and_replies(server: BotApiServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        mention = [{"type": "mention", "offset": 3, "length": 16}]
        server.say("just talk", chat=GROUP)
        server.say(
            "🌱 @hermes_test_bot, hello", chat=GROUP, entities=mention, is_topic_message=True, message_thread_id=7
        )
        event = rig.next_event()
        assert event.source is not None
        assert (event.text, event.source.chat_type, event.source.thread_id) == ("🌱 , hello", "group", "7")
        assert rig.send("-100", "hi", event.message_id, thread_id="7").success
        [sent] = server.called("sendMessage")
        assert sent["message_thread_id"] == 7
        assert sent["reply_parameters"] == {
            "message_id": int(event.message_id or 0),
            "allow_sending_without_reply": True,
        }
        assert rig.events == []


def test_what_is_a_message_for_us() -> None:
    def read(**fields: Any) -> str | None:
        sender = {"id": 1, "first_name": "Ann"}
        message = {"message_id": 5, "chat": {"id": 1, "type": "private"}, "from": sender, **fields}
        found = read_message({"update_id": 1, "message": message}, US)
        return None if found is None else found.text

    assert read(text="hi") == "hi"
    assert read(text="/stop@Hermes_Test_Bot now") == "/stop now"
    assert read(caption="look", photo=[{"file_id": "a", "file_size": 1}]) == "look"
    assert read(text="hi", **{"from": {"id": 9, "is_bot": True}}) is None
    assert read(text="hi", sender_chat={"id": -5}) is None
    assert read(text="hi", chat=GROUP) is None
    assert (
        read(text="/stop@hermes_test_bot", chat=GROUP, entities=[{"type": "bot_command", "offset": 0, "length": 21}])
        == "/stop"
    )
    assert (
        read(text="/stop@other_bot", chat=GROUP, entities=[{"type": "bot_command", "offset": 0, "length": 15}]) is None
    )
    assert read(text="yes", chat=GROUP, reply_to_message={"message_id": 4, "from": {"id": US.id}}) == "yes"
    nonsenses: list[dict[str, Any]] = [
        {},
        {"message": None},
        {"message": {"chat": [], "from": "x"}},
        {"edited_message": {"text": "x"}},
    ]
    for nonsense in nonsenses:
        assert read_message({"update_id": 1, **nonsense}, US) is None
    assert read(text=["not", "text"]) is None
    assert (
        read(text="@hermes_test_bot x", chat=GROUP, entities=[{"type": "mention", "offset": "0", "length": 16}]) is None
    )


def test_an_update_is_acknowledged_only_when_its_message_is_stored(server: BotApiServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        rig.refusal = OSError("the disk is full")
        server.say("keep me")
        wait_until(lambda: rig.failures == ["the disk is full"])
        assert len(server.updates) == 1
        rig.refusal = None
        assert rig.connect()
        assert rig.next_event().text == "keep me"
        wait_until(lambda: not server.updates)


def test_updates_of_any_form_are_passed_over(server: BotApiServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        server.push({"update_id": 1001, "my_chat_member": {}})
        server.push({"update_id": 1002, "message": {"chat": 5}})
        server.say("after them")
        assert rig.next_event().text == "after them"
        wait_until(lambda: not server.updates)


def test_long_answers_are_counted_as_telegram_counts(server: BotApiServer, http: PluginHttp) -> None:
    text = "🌱" * 5000
    with running_adapter(adapter(server, http)) as rig:
        result = rig.send("42", text)
        pieces = [call["text"] for call in server.called("sendMessage")]
        assert "".join(pieces) == text and all(utf16_length(piece) <= 4096 for piece in pieces)
        assert len(result.continuation_message_ids) == len(pieces) - 1 == 2


def test_errors_of_sending(server: BotApiServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        server.errors["sendMessage"] = [(429, "Too Many Requests: retry after 7", {"retry_after": 7})]
        result = rig.send("42", "x")
        assert (result.retryable, result.retry_after, result.error_kind) == (True, 7, "rate_limited")
        server.errors["sendMessage"] = [(403, "Forbidden: bot was blocked by the user", {})]
        result = rig.send("42", "x")
        assert (result.retryable, result.error_kind) == (False, "forbidden")
        server.errors["sendMessage"] = [(400, "Bad Request: can't parse entities", {})]
        assert rig.send("42", "*x*").success
        assert server.called("sendMessage")[-1] == {"chat_id": "42", "text": "*x*"}
        server.errors["sendMessage"] = [(500, "Internal Server Error", {})]
        result = rig.send("42", "x")
        assert (result.success, result.retryable) == (False, False), "Telegram may have sent it"
        server.errors["editMessageText"] = [(400, "Bad Request: message is not modified", {})]
        assert rig.call(rig.adapter.edit_message("42", "5", "x")).success


def test_polling_survives_a_hiccup_and_reports_a_rival(server: BotApiServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        server.errors["getUpdates"] = [(429, "Too Many Requests", {"retry_after": 0.01})]
        server.say("still here")
        assert rig.next_event().text == "still here"
        server.errors["getUpdates"] = [(409, "Conflict: terminated by other getUpdates request", {})]
        server.say("wake up")
        wait_until(lambda: rig.failures)
        assert "another program polls" in rig.failures[0]
        assert rig.adapter.fatal_error_retryable


def test_no_error_names_the_token(server: BotApiServer, http: PluginHttp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = "123456:wrong-token-0123456789"
    with running_adapter(adapter(server, http, wrong), connect=False) as rig:
        assert not rig.connect()
        assert rig.adapter.fatal_error_message == "Telegram does not know the token"
        assert not rig.adapter.fatal_error_retryable
    gone = adapter(server, http)
    server.base_url = "http://127.0.0.1:1"
    with running_adapter(adapter(server, http), connect=False) as rig:
        assert not rig.connect()
        assert rig.adapter.fatal_error_retryable
        result = rig.send("42", "x")
        assert result.retryable
        texts = f"{rig.adapter.fatal_error_message} {result} {caplog.text} {gone!r}"
    assert "wrong-token" not in texts and TOKEN.partition(":")[2] not in texts


def test_markdown_becomes_the_html_of_telegram() -> None:
    text = (
        "# T\n\nA *b* ~~c~~ `<d>` [e](https://x.test/?a=1&b=2)\n\n1. one\n2. two\n   - deep\n\n"
        "> q\n\n```py\nx < 1\n```\n<script>"
    )
    assert to_html(text) == (
        "<b>T</b>\n\nA <i>b</i> <s>c</s> <code>&lt;d&gt;</code> "
        '<a href="https://x.test/?a=1&amp;b=2">e</a>\n\n1. one\n2. two\n  • deep\n\n'
        "<blockquote>q\n\n</blockquote>\n<pre>x &lt; 1</pre>\n\n&lt;script&gt;"
    )


def test_settings_say_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match="get one from @BotFather: hermes config set TELEGRAM_BOT_TOKEN"):
        TelegramSettings.read({}, env={})
    with pytest.raises(ConfigError, match="does not look like a token"):
        TelegramSettings.read({}, token="hello", env={})
    with pytest.raises(ConfigError, match=r"base_url .* has no password in it"):
        TelegramSettings.read({"base_url": "https://me:secret@x.test"}, token=TOKEN, env={})
    assert TOKEN not in repr(TelegramSettings.read({}, token=TOKEN, env={}))
