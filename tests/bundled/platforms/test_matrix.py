"""The Matrix platform: events, settings, and conversations on a real synapse."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hermes.bundled.platforms.matrix.adapter import MatrixAdapter
from hermes.bundled.platforms.matrix.events import read_event
from hermes.bundled.platforms.matrix.settings import read_settings
from hermes.errors import ConfigError
from hermes.gateway.adapter import PlatformConfig
from hermes.plugins.http import PluginHttp
from support.adapter_rig import running_adapter
from support.chat_servers import synapse
from support.waiting import HANG, wait_until

OWN = "@hermes:example.test"


def read(is_direct: bool = True, relation: dict[str, Any] | None = None, **content: Any) -> str | None:
    event = {
        "type": "m.room.message",
        "event_id": "$1",
        "sender": "@ann:example.test",
        "content": {"msgtype": "m.text", "body": "hi", "m.relates_to": relation or {}, **content},
    }
    found = read_event(event, OWN, is_direct=is_direct, require_mention=True)
    return None if found is None else found.text


def test_what_is_a_message_for_us() -> None:
    assert read() == "hi"
    assert read(relation={"rel_type": "m.replace", "event_id": "$0"}) is None, "an edit"
    assert read(body=None, msgtype=None) is None, "redacted"
    assert read(msgtype="m.notice") is None
    assert read(body="> <@hermes> old\n> more\n\nnew", relation={"m.in_reply_to": {}}) == "new"
    assert read(msgtype="m.image", body="a.png") == "[Attached, not readable here: a.png]"
    assert read(is_direct=False) is None
    assert read(is_direct=False, body="hermes: hello") == "hello"
    assert read(is_direct=False, body=f"hello {OWN}") == f"hello {OWN}"
    assert read_event({"type": "m.room.message", "content": []}, OWN, is_direct=True, require_mention=True) is None


def test_settings_say_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match=r"homeserver .* is not set"):
        read_settings({}, env={})
    with pytest.raises(ConfigError, match="hermes config set MATRIX_ACCESS_TOKEN"):
        read_settings({"homeserver": "https://x.test"}, env={})
    assert "syt_secret" not in repr(read_settings({"homeserver": "https://x.test"}, "syt_secret", env={}))


class Person:
    """A user of the server."""

    def __init__(self, url: str, name: str) -> None:
        self._url = f"{url}/_matrix/client/v3"
        self.token = ""
        auth = {"type": "m.login.dummy"}
        found = self.call("POST", "/register", username=name, password="a-long-password-1", auth=auth)
        self.token, self.user_id = found["access_token"], found["user_id"]
        self._since = ""

    def call(self, method: str, path: str, **fields: Any) -> dict[str, Any]:
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        data = json.dumps(fields).encode() if method != "GET" else None
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=HANG) as response:
            return json.loads(response.read())

    def say(self, room: str, number: int, **content: Any) -> str:
        path = f"/rooms/{quote(room)}/send/m.room.message/{number}"
        return self.call("PUT", path, **{"msgtype": "m.text", **content})["event_id"]

    def messages(self, room: str) -> list[dict[str, Any]]:
        return self.call("GET", f"/rooms/{quote(room)}/messages?dir=b&limit=20")["chunk"]


@pytest.mark.slow
def test_a_conversation_on_synapse(tmp_path: Path, http: PluginHttp) -> None:
    with synapse(tmp_path) as url:
        person, bot = Person(url, "ann"), Person(url, "hermes")
        room = person.call("POST", "/createRoom", invite=[bot.user_id], is_direct=True)["room_id"]
        block = {"homeserver": url, "invites_from": [person.user_id], "poll_seconds": 5}
        settings = read_settings(block, bot.token, env={})
        with running_adapter(MatrixAdapter(PlatformConfig(extra=block), settings, http)) as rig:

            def members() -> int:
                return len(person.call("GET", f"/rooms/{quote(room)}/joined_members")["joined"])

            wait_until(lambda: members() == 2, "the invitation to be accepted")
            first = person.say(room, 1, body="What grows best?")
            event = rig.next_event()
            assert event.source is not None
            assert (event.text, event.message_id, event.source.chat_type) == ("What grows best?", first, "dm")
            assert event.source.user_id == person.user_id
            edit = {"m.new_content": {"msgtype": "m.text", "body": "x"}}
            person.say(room, 2, body="* x", **edit, **{"m.relates_to": {"rel_type": "m.replace", "event_id": first}})
            person.call("PUT", f"/rooms/{quote(room)}/redact/{quote(first)}/3")
            rig.call(rig.adapter.send_typing(room))
            result = rig.send(room, "**Basil**", first)
            assert result.success and result.message_id
            assert rig.call(rig.adapter.edit_message(room, result.message_id, "Thyme")).success
            bodies = [one["content"].get("body") for one in person.messages(room) if one["sender"] == bot.user_id]
            assert bodies[:2] == ["* Thyme", "**Basil**"]
            person.say(room, 4, body="thanks")
            assert rig.next_event().text == "thanks", "the edit and the redaction were no messages"
            assert rig.send("!nowhere:example.test", "x").success is False
        with running_adapter(
            MatrixAdapter(PlatformConfig(), read_settings(block, "wrong", env={}), http), connect=False
        ) as rig:
            assert not rig.connect()
            assert not rig.adapter.fatal_error_retryable
