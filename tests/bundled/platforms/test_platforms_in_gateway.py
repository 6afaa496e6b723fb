"""Bundled platforms run by the real gateway: a conversation on ngircd, and a webhook whose answer goes to a channel."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config.schema.gateway import GatewayConfig, GatewayPlatformConfig
from hermes.surfaces.gateway.gateway import Gateway
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text
from support.chat_servers import IrcClient, free_port, ngircd
from support.configured import configured_host
from support.signed_posts import post_signed
from support.waiting import HANG, wait_until


def answer(request: RecordedRequest) -> ScriptedReply:
    return text(f"Answer to {request.last_user_text.splitlines()[0]}")


def test_irc_and_a_webhook(home: Path, workdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "secret-of-the-build-route"
    monkeypatch.setenv("WEBHOOK_SECRET_BUILD", secret)
    web_port = free_port()
    with (
        ngircd(tmp_path / "ngircd") as irc_port,
        ScriptedProvider(answer) as provider,
    ):
        person = IrcClient(irc_port, "Ann")
        person.send("JOIN #room")
        person.wait_for(" 366 ")
        irc = {"server": "127.0.0.1", "port": irc_port, "tls": False, "channels": ["#room"], "line_interval": 0}
        route = {"prompt": "Build {name} failed", "deliver": "irc:#room"}
        platforms = {
            "irc": GatewayPlatformConfig(allowed_users=["ann!~ann@127.0.0.1"], extra=irc),
            "webhook": GatewayPlatformConfig(extra={"port": web_port, "routes": {"build": route}}),
        }
        options = {"platform": "gateway", "platforms": ["irc", "webhook"]}
        with configured_host(
            home, workdir, provider, gateway=GatewayConfig(platforms=platforms), options=options
        ) as host:
            seen: list[tuple[str, str, str]] = []

            def note(event: Any, sender_state: str, **_: Any) -> None:
                seen.append((str(event.source.platform), event.text, sender_state))

            host.hooks.subscribe("pre_gateway_dispatch", "recorder", note)
            gateway = Gateway(host, ["irc", "webhook"])
            stop = asyncio.Event()
            loop = asyncio.new_event_loop()
            thread = threading.Thread(target=lambda: loop.run_until_complete(gateway.run(stop)), daemon=True)
            thread.start()
            try:
                wait_until(lambda: set(gateway.adapters) == {"irc", "webhook"}, "both platforms")
                person.send("PRIVMSG #room :hermes: hello")
                assert person.wait_for("PRIVMSG #room").endswith("PRIVMSG #room :Ann: Answer to hello")
                for _ in range(2):
                    assert post_signed(web_port, b'{"name": "x"}', secret) == 202
                assert person.wait_for("PRIVMSG #room").endswith("PRIVMSG #room :Answer to Build x failed")
                stranger = IrcClient(irc_port, "Eve")
                stranger.send("PRIVMSG hermes :let me in")
                assert "I do not know you yet" in stranger.wait_for("PRIVMSG Eve")
                stranger.close()
            finally:
                loop.call_soon_threadsafe(stop.set)
                thread.join(HANG)
                loop.close()
        assert [(platform, state) for platform, _, state in seen] == [
            ("irc", "known"),
            ("webhook", "known"),
            ("irc", "unknown"),
        ]
        assert seen[1][1] == "Build x failed" and "let me in" in seen[2][1]
        assert len(provider.requests) == 2, "a second delivery of a webhook is the same turn"
        person.close()
