"""``ctx.on_unload``: what a plugin has started ends with its host, or when it fails to load."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import PluginError
from hermes.testing import PluginHarness, ScriptedProvider
from support import HostFactory
from support.plugin_rig import Rig


def test_clean_ups_run_once_the_last_first_and_after_all_events(
    make_host: HostFactory, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    class First:
        name = "first"

        def register(self, ctx: Any) -> None:
            async def cleaned() -> None:
                seen.append("first, awaited")

            ctx.on_unload(cleaned)
            ctx.on_unload(lambda: seen.append("first, again"))

    class Second:
        name = "second"

        def register(self, ctx: Any) -> None:
            def finalized(session_id: str) -> None:
                seen.append("finalized")

            ctx.register_hook("on_session_finalize", finalized, background=True)
            ctx.on_unload(lambda: seen.append("second"))
            ctx.on_unload(lambda: 1 / 0)

    with ScriptedProvider({"hi": "hello"}) as provider:
        host = make_host(provider, plugin_objects=[First(), Second()])
        host.new_session().run("hi")
        assert seen == []
        host.close()
        host.plugins.close()
    assert seen == ["finalized", "second", "first, again", "first, awaited"]
    assert "plugin 'second': its on_unload failed: ZeroDivisionError" in caplog.text


def noting(file: Path) -> str:
    """A plugin that adds a letter to the file when it is unloaded."""
    return (
        f"def note():\n    with open({str(file)!r}, 'a') as file:\n        file.write('x')\n"
        "def register(ctx):\n    ctx.on_unload(note)"
    )


def test_a_plugin_that_fails_to_load_is_cleaned_up_first(rig: Rig, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    rig.write("half", noting(noted) + "\n    1 / 0")
    plugins = rig.load(enabled=["half"])
    assert plugins.plugins["half"].status == "failed"
    plugins.close()
    assert noted.read_text() == "x"


def test_plugins_are_unloaded_when_another_one_that_was_asked_for_is_missing(rig: Rig, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    rig.write("a", noting(noted))
    rig.write("b", "1 / 0")
    with pytest.raises(PluginError, match="plugin 'b' cannot be loaded"):
        rig.load("b", enabled=["a"])
    assert noted.read_text() == "x"


def test_only_functions_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with pytest.raises(PluginError, match="on_unload needs a function, got str"):
        PluginHarness(lambda ctx: ctx.on_unload("text"))
