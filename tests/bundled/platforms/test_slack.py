"""The Slack platform on a local server, which Slack's own SDK accepts, too."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import re
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from slack_sdk import WebClient
from slack_sdk.socket_mode import SocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from hermes.base.errors import ConfigError
from hermes.bundled.platforms.slack.adapter import SlackAdapter
from hermes.bundled.platforms.slack.events import is_signed, plain_text, read_event
from hermes.bundled.platforms.slack.settings import SlackSettings
from hermes.plugins.http import PluginHttp
from hermes.surfaces.gateway.adapter import PlatformConfig
from support.adapter_rig import running_adapter
from support.gateway_rig import GatewayRig, SwitchedProvider
from support.slack_server import APP_TOKEN, BOT_TOKEN, OWN_USER, SlackServer, slack_server
from support.waiting import wait_for, wait_until

ENV = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN, "SLACK_SIGNING_SECRET": "signing-secret"}


@pytest.fixture
def server() -> Generator[SlackServer]:
    with slack_server() as found:
        yield found


def adapter(server: SlackServer, http: PluginHttp, env: dict[str, str] | None = None, **settings: Any) -> SlackAdapter:
    block = {"base_url": server.base_url, "port": 0, **settings}
    return SlackAdapter(PlatformConfig(extra=block), SlackSettings.read(block, env=env or ENV), http)


def test_the_official_sdk_accepts_the_server(server: SlackServer) -> None:
    client: Any = WebClient(BOT_TOKEN, base_url=f"{server.base_url}/")
    assert client.auth_test()["user_id"] == OWN_USER
    assert client.chat_postMessage(channel="C1", markdown_text="hi")["ok"]
    heard: list[Any] = []
    arrived = threading.Event()

    def listener(link: Any, request: SocketModeRequest) -> None:
        heard.append(request)
        link.send_socket_mode_response(SocketModeResponse(request.envelope_id))
        arrived.set()

    link = SocketModeClient(APP_TOKEN, web_client=client, auto_reconnect_enabled=False)
    link.socket_mode_request_listeners.append(listener)
    try:
        link.connect()
        envelope = server.say("hello")
        wait_for(arrived)
        assert heard[0].payload["event"]["text"] == "hello"
        wait_until(lambda: server.acknowledged == [envelope])
    finally:
        link.close()


def test_a_conversation_over_socket_mode(server: SlackServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        envelope = server.say("What grows &lt;best&gt;?")
        event = rig.next_event()
        assert event.source is not None
        assert (event.text, event.message_id) == ("What grows <best>?", "1.1")
        assert (event.source.chat_id, event.source.chat_type, event.source.user_id) == ("D1", "dm", "UANN")
        assert (event.source.user_name, event.source.thread_id) == ("Ann Lee", None)
        wait_until(lambda: server.acknowledged == [envelope])
        result = rig.send("D1", "**Basil**")
        assert result.success
        assert server.called("chat.postMessage") == [{"channel": "D1", "markdown_text": "**Basil**"}]
        assert rig.call(rig.adapter.edit_message("D1", result.message_id or "", "Thyme")).success
        assert rig.call(rig.adapter.delete_message("D1", result.message_id or ""))
        assert rig.call(rig.adapter.get_chat_info("C1")) == {"name": "garden", "type": "group"}

        server.say(f"<@{OWN_USER}> hello", type="app_mention", channel="C1", channel_type="channel", ts="2.1")
        event = rig.next_event()
        assert event.source is not None
        assert (event.text, event.source.chat_type, event.source.thread_id) == ("hello", "group", "2.1")
        assert rig.send("C1", "hi", thread_id="2.1").success
        assert server.called("chat.postMessage")[-1]["thread_ts"] == "2.1"

        server.push("slash_commands", {"channel_id": "D1", "user_id": "UANN", "trigger_id": "t1", "text": "stop"})
        assert rig.next_event().text == "/stop"
        assert len(server.called("users.info")) == 1


def test_what_is_a_message_for_us() -> None:
    def read(**fields: Any) -> str | None:
        event = {
            "type": "message",
            "channel": "D1",
            "channel_type": "im",
            "user": "U1",
            "ts": "1",
            "text": "hi",
            **fields,
        }
        found = read_event({"event": event}, OWN_USER)
        return None if found is None else found.text

    assert read() == "hi"
    assert read(text="!stop now") == "/stop now"
    assert read(text="!!") == "!!"
    assert read(subtype="file_share", text="", files=[{"name": "a.pdf"}]) == ""
    for fields in (
        {"bot_id": "B1"},
        {"user": OWN_USER},
        {"subtype": "message_changed"},
        {"subtype": "message_deleted"},
        {"channel_type": "channel"},
        {"text": ""},
        {"user": None},
        {"ts": 5},
        {"type": "reaction_added"},
    ):
        assert read(**fields) is None, fields
    for nonsense in ({}, {"event": None}, {"event": ["x"]}):
        assert read_event(nonsense, OWN_USER) is None
    text = "<@UBOT> see <https://x.test|the page>, <https://y.test>, <#C1|garden>, <@U2|bob> &amp; <!here>"
    assert plain_text(text, OWN_USER) == "see the page (https://x.test), https://y.test, #garden, @bob & @here"


def test_an_event_is_acknowledged_only_when_its_message_is_stored(server: SlackServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        rig.refusal = OSError("the disk is full")
        server.say("keep me")
        wait_until(lambda: rig.failures == ["the disk is full"])
        assert server.acknowledged == []


def test_a_connection_that_slack_refreshes_and_one_that_is_lost(server: SlackServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        server.send({"type": "disconnect", "reason": "refresh_requested"})
        wait_until(lambda: server.connections == 2, "the second connection")
        server.say("over the new one")
        assert rig.next_event().text == "over the new one"
        server.send({"type": "unknown"})
        server.hang_up()
        wait_until(lambda: rig.failures, "the report of the lost connection")
        assert "closed the connection" in rig.failures[0]
        assert rig.adapter.fatal_error_retryable


def test_errors_of_sending(server: SlackServer, http: PluginHttp) -> None:
    with running_adapter(adapter(server, http)) as rig:
        server.errors["chat.postMessage"] = [
            (429, "ratelimited", {"retry-after": "7"}),
            (200, "channel_not_found", {}),
            (200, "internal_error", {}),
        ]
        found = [rig.send("C1", "x") for _ in range(3)]
        assert [(one.retryable, one.retry_after, one.error_kind) for one in found] == [
            (True, 7, "rate_limited"),
            (False, None, "not_found"),
            (False, None, "unknown"),
        ]
        result = rig.send("C1", "word " * 5000)
        assert result.success and len(result.continuation_message_ids) == 2


def test_tokens_are_refused_for_good_and_never_named(server: SlackServer, http: PluginHttp) -> None:
    env = {**ENV, "SLACK_BOT_TOKEN": "xoxb-wrong-token"}
    with running_adapter(adapter(server, http, env), connect=False) as rig:
        assert not rig.connect()
        assert not rig.adapter.fatal_error_retryable
        assert rig.adapter.fatal_error_message == "auth.test: invalid_auth"
    env = {**ENV, "SLACK_APP_TOKEN": "xapp-wrong-token"}
    with running_adapter(adapter(server, http, env), connect=False) as rig:
        assert not rig.connect()
        assert rig.adapter.fatal_error_message == "apps.connections.open: invalid_auth"


def post(port: int, body: bytes, secret: str = "signing-secret", **headers: str) -> tuple[int, str]:
    sent_at = headers.pop("at", str(int(time.time())))
    signature = hmac.new(secret.encode(), f"v0:{sent_at}:".encode() + body, hashlib.sha256).hexdigest()
    lines = {"x-slack-request-timestamp": sent_at, "x-slack-signature": f"v0={signature}", **headers}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/slack/events", body, lines)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_the_events_api(server: SlackServer, http: PluginHttp) -> None:
    slack = adapter(server, http, mode="events")
    with running_adapter(slack) as rig:
        port = slack.server.port
        challenge = json.dumps({"type": "url_verification", "challenge": "c-123"}).encode()
        assert post(port, challenge) == (200, "c-123")
        assert post(port, challenge, "wrong")[0] == 401
        assert post(port, challenge, at="1000")[0] == 401
        event = {"type": "message", "channel": "D1", "channel_type": "im", "user": "U1", "ts": "1", "text": "hi"}
        body = json.dumps({"type": "event_callback", "event": event}).encode()
        assert post(port, body)[0] == 200
        assert rig.next_event().text == "hi"
        form = urlencode({"channel_id": "D1", "user_id": "U1", "trigger_id": "t", "text": "new"}).encode()
        assert post(port, form, **{"content-type": "application/x-www-form-urlencoded"})[0] == 200
        assert rig.next_event().text == "/new"
        rig.refusal = OSError("the disk is full")
        assert post(port, body)[0] == 503
        assert server.called("apps.connections.open") == []


def test_the_published_example_of_the_signature() -> None:
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
        b"&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
        b"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
        b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    assert is_signed("8f742231b10e8888abcd99yyyzzz85a5", headers, body, 1531420618)
    assert not is_signed("8f742231b10e8888abcd99yyyzzz85a5", headers, body, 1531420618 + 301)


def test_settings_say_what_is_wrong() -> None:
    for env, block, words in (
        ({}, {}, "hermes config set SLACK_BOT_TOKEN"),
        ({"SLACK_BOT_TOKEN": BOT_TOKEN}, {}, "hermes config set SLACK_APP_TOKEN"),
        ({"SLACK_BOT_TOKEN": APP_TOKEN}, {}, "does not begin with xoxb-"),
        ({"SLACK_BOT_TOKEN": BOT_TOKEN}, {"mode": "events"}, "SLACK_SIGNING_SECRET"),
        (ENV, {"mode": "rtm"}, "allowed are socket, events"),
        (ENV, {"bot_token": "x"}, "is a secret"),
    ):
        with pytest.raises(ConfigError, match=words):
            SlackSettings.read(block, env=env)
    assert "0123456789" not in repr(SlackSettings.read({}, env=ENV))


def test_clicks_call_the_handlers_of_plugins(
    home: Path, workdir: Path, provider: SwitchedProvider, server: SlackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    clicks: list[Any] = []

    class Buttons:
        @staticmethod
        def register(ctx: Any) -> None:
            async def pressed(ack: Any, body: dict[str, Any], action: dict[str, Any], say: Any) -> None:
                await ack()
                clicks.append((body["user"]["id"], action["value"]))
                await say("Thanks.")

            def breaks(**_: Any) -> None:
                raise ValueError("not today")

            def picked(action: dict[str, Any]) -> None:
                clicks.append((action["block_id"], action["action_id"]))

            ctx.register_slack_action_handler("water", pressed)
            ctx.register_slack_action_handler("breaks", breaks)
            ctx.register_slack_action_handler(re.compile("^pick:"), picked)
            ctx.register_slack_action_handler({"action_id": "dig", "block_id": re.compile("^bed")}, picked)

    def click(user: str, action: str, block: str = "", value: object = "bed 3") -> str:
        actions = [{"action_id": action, "block_id": block, "value": value}, "no action", {}]
        return server.push("interactive", {"user": {"id": user}, "channel": {"id": "C1"}, "actions": actions})

    rig = GatewayRig(home, workdir, provider)
    settings = GatewayPlatformConfig(allowed_users=["UANN"], extra={"base_url": server.base_url, "port": 0})
    try:
        running = rig.start(plugins=[Buttons], platforms=["slack"], others={"slack": settings})
        wait_until(lambda: "slack" in running.gateway.adapters, "a connection")
        sent = [click("UEVE", "water"), click("UANN", "breaks"), click("UANN", "unknown"), click("UANN", "water")]
        sent += [click("UANN", "pick:7", "a"), click("UANN", "no pick:7", "a"), click("UEVE", "pick:8", "a")]
        sent += [click("UANN", "dig", "bed 4"), click("UANN", "dig", "path"), click("UANN", "dig up", "bed 4")]
        sent.append(server.push("interactive", {"user": "x", "channel": [], "actions": 5}))
        wait_until(lambda: server.acknowledged == sent, "every click to be acknowledged")
        expected = [("UANN", "bed 3"), ("a", "pick:7"), ("bed 4", "dig")]
        wait_until(lambda: len(clicks) >= len(expected), "the clicks of the user who is let in")
        assert clicks == expected, "a click of a stranger calls nothing, nor one that fits no handler"
        assert server.called("chat.postMessage") == [{"channel": "C1", "markdown_text": "Thanks."}]
    finally:
        rig.close()
