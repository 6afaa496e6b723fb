"""An adapter that blocks the event loop is named, with the place in its code, in the log and in the status."""

from __future__ import annotations

import logging
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from hermes.base.config.schema.gateway import GatewayPlatformConfig
from support import line_platform
from support.gateway_rig import GatewayRig
from support.waiting import HANG, wait_until

#: Its own file, as a plugin has one.
_CODE = """
class StuckAdapter(LineAdapter):
    def __init__(self, config):
        super().__init__(config, "stuck")

    async def send(self, chat_id, content, reply_to=None, metadata=None):
        look_up(content)
        return await super().send(chat_id, content, reply_to, metadata)


def look_up(content):
    if "block" in content:
        release.wait(hang)
"""


def stuck_platform(folder: Any, release: threading.Event) -> ModuleType:
    file = folder / "__init__.py"
    module = ModuleType("stuck_platform")
    module.__dict__.update(__file__=str(file), release=release, hang=HANG, LineAdapter=line_platform.LineAdapter)
    exec(compile(_CODE, str(file), "exec"), module.__dict__)

    def register(ctx: Any) -> None:
        ctx.register_platform("stuck", "Stuck", module.__dict__["StuckAdapter"], lambda: True)

    module.__dict__["register"] = register
    return module


def test_an_adapter_that_blocks_the_loop_is_named(
    rig: GatewayRig, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hermes.surfaces.gateway.platforms.supervision.BLOCKED_SECONDS", 0.05)
    release = threading.Event()
    folder = tmp_path / "stuck"
    folder.mkdir()
    module = stuck_platform(folder, release)
    monkeypatch.setitem(sys.modules, "stuck_platform", module)
    port_file = tmp_path / "stuck_port"
    named = GatewayPlatformConfig(allowed_users=["*"], extra={"port_file": str(port_file)})
    with caplog.at_level(logging.WARNING, "hermes.gateway"):
        running = rig.start(plugins=[module], platforms=("line", "stuck"), others={"stuck": named})
        client = rig.client()
        wait_until(lambda: all(one.state == "connected" for one in running.gateway.statuses), "both platforms")
        rig.port_file = port_file
        other = rig.client()
        other.say("block", "eve")
        status = next(one for one in running.gateway.statuses if one.name == "stuck")
        wait_until(lambda: "blocks all platforms" in status.error, "the report")
        assert "__init__.py:13 (look_up)" in status.error
        release.set()
        wait_until(lambda: "blocked all platforms for" in status.error, "the end")
        assert other.hear(1, "eve") == ["Answer to block"]
        assert client.ask("hello") == "Answer to hello"
    assert "stuck blocks the event loop, at __init__.py:13 (look_up)" in caplog.text
    line = next(one for one in running.gateway.statuses if one.name == "line")
    assert "blocks" not in line.error
