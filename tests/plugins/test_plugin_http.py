"""``ctx.http``: requests of plugins over the host's client, with the SSRF guard on unless a call says otherwise."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.sections import PluginsConfig, SecurityConfig
from hermes.base.errors import HermesError, Interrupted
from hermes.base.scope import Scope, current_scope
from hermes.plugins.http import PluginHttp
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host, tool_answers, write_plugin
from support.image_server import PNG, Answer, ImageServer
from support.waiting import HANG

FETCHER = """
import json

def register(ctx):
    def fetch(args, **_):
        response = ctx.http.get(args["url"], allow_private=args.get("trusted", False))
        return json.dumps({"status": response.status, "bytes": len(response.body)})

    schema = {"type": "object", "properties": {"url": {"type": "string"}, "trusted": {"type": "boolean"}}}
    ctx.register_tool("fetch", "web", schema, fetch, description="Fetch.")
"""


@pytest.mark.parametrize(("trusted", "allowed"), [(False, False), (True, False), (False, True)])
def test_a_plugin_reaches_private_addresses_when_it_or_the_user_says_so(
    home: Path, workdir: Path, trusted: bool, allowed: bool
) -> None:
    write_plugin(home, "fetcher", FETCHER)
    with ImageServer() as server:
        call = tool_call("fetch", {"url": f"{server.address}/x.png", "trusted": trusted})
        with (
            ScriptedProvider([call, text("ok")]) as provider,
            configured_host(
                home,
                workdir,
                provider,
                plugins=PluginsConfig(enabled=["fetcher"]),
                security=SecurityConfig(allow_private_urls=allowed),
            ) as host,
        ):
            session = host.new_session()
            session.run("go")
            [answer] = tool_answers(host, session.id)
    if trusted or allowed:
        assert answer == {"status": 200, "bytes": len(PNG)}
    else:
        assert "is in a private network" in str(answer["error"]) and server.fetched == []


def test_json_is_sent_and_a_status_is_no_error(home: Path, workdir: Path) -> None:
    def refuse(_body: dict[str, Any]) -> Answer:
        return 404, {}, b'{"error": "no such model"}'

    with ImageServer() as server, ScriptedProvider("x") as provider, configured_host(home, workdir, provider) as host:
        server.reply = refuse
        url = f"{server.address}/v1/images/generations"
        http = host.services.http
        response = http.request("POST", url, headers={"X-Own": "1"}, json={"prompt": "p"}, allow_private=True)
        assert (response.status, response.is_success, response.json()) == (404, False, {"error": "no such model"})
        assert server.requests[0]["prompt"] == "p"
        with pytest.raises(HermesError, match="more than 10 bytes"):
            http.request("POST", url, json={}, max_bytes=10, allow_private=True)


def test_the_interrupt_of_the_turn_ends_a_request(home: Path, workdir: Path) -> None:
    with ScriptedProvider("x") as provider, configured_host(home, workdir, provider) as host:
        scope = Scope()
        scope.interrupt.cancel("stopped")
        token = current_scope.set(scope)
        try:
            with pytest.raises(Interrupted, match="stopped"):
                host.services.http.get("https://example.org/")
        finally:
            current_scope.reset(token)


def test_all_requests_of_a_host_share_its_connections(home: Path, workdir: Path) -> None:
    with ScriptedProvider("x") as provider, configured_host(home, workdir, provider) as host:
        host.new_session().run("hello")
        PluginHttp(host.models.driver.http).get(f"{provider.base_url}/models", allow_private=True)
        assert provider.connections == 1


def test_cancelling_a_coroutine_ends_its_request(home: Path, workdir: Path) -> None:
    async def cancel_while_waiting(http: PluginHttp, listener: socket.socket) -> None:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        task = asyncio.create_task(http.arequest("GET", url, allow_private=True))
        connection = await asyncio.to_thread(lambda: listener.accept()[0])
        with connection:
            connection.settimeout(HANG)
            await asyncio.to_thread(connection.recv, 65536)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(connection.recv, 1) == b"", "the connection is closed"

    with (
        ScriptedProvider("x") as provider,
        configured_host(home, workdir, provider) as host,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        answer = asyncio.run(host.services.http.arequest("GET", f"{provider.base_url}/models", allow_private=True))
        assert answer.is_success
        asyncio.run(cancel_while_waiting(host.services.http, listener))
