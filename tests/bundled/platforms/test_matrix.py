"""The Matrix platform: events, settings, and conversations on a real synapse."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from hermes.base.errors import ConfigError
from hermes.bundled.platforms.matrix.adapter import MatrixAdapter
from hermes.bundled.platforms.matrix.events import read_event
from hermes.bundled.platforms.matrix.settings import MatrixSettings
from hermes.plugins.http import PluginHttp
from hermes.surfaces.gateway.adapter import PlatformConfig
from support.adapter_rig import running_adapter
from support.chat_servers import synapse
from support.gateway_rig import SwitchedProvider
from support.platform_conversation import hold_conversation
from support.waiting import HANG, wait_until

OWN = "@hermes:example.test"


def read(is_direct: bool = True, relation: dict[str, Any] | None = None, **content: Any) -> str | None:
    event = {
        "type": "m.room.message",
        "event_id": "$1",
        "sender": "@ann:example.test",
        "content": {"msgtype": "m.text", "body": "hi", "m.relates_to": relation or {}, **content},
    }
    found = read_event("!room", event, OWN, is_direct=is_direct, require_mention=True)
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
    assert (
        read_event("!room", {"type": "m.room.message", "content": []}, OWN, is_direct=True, require_mention=True)
        is None
    )


def test_settings_say_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match=r"homeserver .* is not set"):
        MatrixSettings.read({}, env={})
    with pytest.raises(ConfigError, match="hermes config set MATRIX_ACCESS_TOKEN"):
        MatrixSettings.read({"homeserver": "https://x.test"}, env={})
    assert "syt_secret" not in repr(MatrixSettings.read({"homeserver": "https://x.test"}, token="syt_secret", env={}))


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with synapse(tmp_path_factory.mktemp("synapse")) as url:
        yield url


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
        return self.call("GET", f"/rooms/{quote(room)}/messages?dir=b&limit=100")["chunk"]


def test_a_retry_is_the_same_transaction(http: PluginHttp) -> None:
    """The first answer of the server is lost: the message is sent again, and the server can recognise it."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({"user_id": OWN, "next_batch": "s1"})

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            paths.append(self.path)
            if len(paths) == 2:
                self.close_connection = True  # the event was made, and no one hears of it
            else:
                self._answer({"event_id": f"$made-by-{self.path[-8:]}"})

        def _answer(self, document: dict[str, Any]) -> None:
            data = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    block = {"homeserver": f"http://127.0.0.1:{server.server_port}"}
    adapter = MatrixAdapter(PlatformConfig(extra=block), MatrixSettings.read(block, token="syt_token", env={}), http)
    text = f"{'a' * 15_999}\n{'b' * 100}"
    try:
        with running_adapter(adapter, connect=False) as rig:
            first = rig.send("!room:x", text, idempotency_key="gateway:1:0:5.0")
            assert (first.success, first.retryable) == (False, True)
            second = rig.send("!room:x", text, idempotency_key="gateway:1:0:5.0")
            assert second.success
            assert paths[:2] == paths[2:] and len(set(paths)) == 2, "each piece has an id of its own"
            other = rig.send("!room:x", text, idempotency_key="gateway:2:0:5.0")
            assert other.success and not set(paths[:2]) & set(paths[4:])
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_conversation_on_synapse(server_url: str, http: PluginHttp) -> None:
    person, bot = Person(server_url, "ann"), Person(server_url, "hermes")
    room = person.call("POST", "/createRoom", invite=[bot.user_id], is_direct=True)["room_id"]
    block = {"homeserver": server_url, "invites_from": [person.user_id], "poll_seconds": 5}
    settings = MatrixSettings.read(block, token=bot.token, env={})
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
        twice = [rig.send(room, "once", idempotency_key="gateway:1:0:5.0") for _ in range(2)]
        assert twice[0].message_id == twice[1].message_id, "the server recognises the transaction"
    with running_adapter(
        MatrixAdapter(PlatformConfig(), MatrixSettings.read(block, token="wrong", env={}), http), connect=False
    ) as rig:
        assert not rig.connect()
        assert not rig.adapter.fatal_error_retryable


class MatrixPeer:
    platform = "matrix"

    def __init__(self, url: str, owner: Person, bot: Person) -> None:
        self._owner, self._bot, self._url = owner, bot, url
        self._room = owner.call("POST", "/createRoom", invite=[bot.user_id], is_direct=True)["room_id"]
        bot.call("POST", f"/join/{quote(self._room)}")
        self._count = 0
        extra = {"homeserver": url, "poll_seconds": 5}
        self.settings = GatewayPlatformConfig(token=bot.token, owners=[owner.user_id], extra=extra)

    def say(self, text: str) -> None:
        self._count += 1
        self._owner.say(self._room, self._count, body=text)

    def send_file(self, text: str, name: str, data: bytes) -> None:
        headers = {"authorization": f"Bearer {self._owner.token}", "content-type": "text/plain"}
        request = urllib.request.Request(f"{self._url}/_matrix/media/v3/upload", data, headers, method="POST")
        with urllib.request.urlopen(request, timeout=HANG) as response:
            place = json.loads(response.read())["content_uri"]
        info = {"size": len(data), "mimetype": "text/plain"}
        self._count += 1
        self._owner.say(self._room, self._count, msgtype="m.file", body=text, filename=name, url=place, info=info)

    def heard(self) -> list[str]:
        events = [one for one in self._owner.messages(self._room) if one["sender"] == self._bot.user_id]
        return [one["content"]["body"] for one in reversed(events) if "body" in one["content"]]


@pytest.mark.slow
def test_the_owner_and_a_whole_gateway(home: Path, workdir: Path, provider: SwitchedProvider, server_url: str) -> None:
    owner, bot = Person(server_url, "owner"), Person(server_url, "bot")
    hold_conversation(home, workdir, provider, MatrixPeer(server_url, owner, bot))
