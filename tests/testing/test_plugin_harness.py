"""The public harness: one plugin on real hooks and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import PluginError
from hermes.base.scope import current_scope
from hermes.testing.harness import PluginHarness
from hermes.testing.llm import FakeLlm
from hermes.testing.recorder import EventRecorder


def test_a_register_function_is_enough(tmp_path: Path) -> None:
    def register(ctx: Any) -> None:
        ctx.register_hook("pre_tool_call", block)
        ctx.register_middleware("tool_request", add)
        ctx.register_middleware("tool_execution", wrap)
        ctx.register_tool("where", "s", {}, where)
        ctx.register_command("shout", str.upper)
        ctx.register_command("later", later)

    def block(tool_name: str) -> Any:
        return {"action": "block", "message": tool_name}

    def add(args: dict[str, Any]) -> Any:
        return {"args": {**args, "x": 1}}

    def wrap(next_call: Any) -> str:
        return f"<{next_call()}>"

    def where(args: dict[str, Any], session_id: str) -> str:
        scope = current_scope.get()
        assert scope is not None
        return f"{session_id} {scope.turn_id}"

    async def later(raw: str) -> str:
        return f"later {raw}"

    with PluginHarness(register, cwd=tmp_path) as harness:
        assert harness.fire("pre_tool_call", tool_name="t", args={}) == [{"action": "block", "message": "t"}]
        assert harness.fire("on_session_end") == []
        assert harness.rewrite("tool_request", {}).payload == {"x": 1}
        assert not harness.rewrite("llm_request", {}).changed
        assert harness.execute("tool_execution", {}, lambda args: "ran") == "<ran>"
        assert harness.execute("llm_execution", {}, lambda request: "asked") == "asked"
        assert harness.call_tool("where", {}) == "test-session test-turn"
        assert (harness.run_command("shout", "hi"), harness.run_command("later", "x")) == ("HI", "later x")
        (tmp_path / "file.txt").write_text("content\n")
        assert "content" in harness.call_tool("read_file", {"path": "file.txt"})
        with pytest.raises(PluginError, match="there is no tool 'nope'; there are"):
            harness.call_tool("nope", {})


def test_a_folder_is_loaded_with_its_settings(tmp_path: Path) -> None:
    (tmp_path / "plugin.yaml").write_text("name: folder-plugin")
    (tmp_path / "__init__.py").write_text(
        "def register(ctx):\n"
        "    ctx.register_tool('read_file', 'file', {}, lambda args: 'mine', override=True)\n"
        "    ctx.register_command('ask', lambda raw: ctx.llm.complete([{'role': 'user', 'content': raw}]).text)\n"
        "    ctx.register_command('say', lambda raw: ctx.inject_message(raw))\n"
        "    ctx.register_command('run', lambda raw: ctx.dispatch_tool(raw, {}))\n"
    )
    with pytest.raises(PluginError, match="may not override"):
        PluginHarness(tmp_path)
    with PluginHarness(tmp_path, settings={"allow_tool_override": True}) as harness:
        assert harness.plugin.manifest.key == "folder-plugin"
        assert harness.run_command("run", "read_file") == "mine"
        with pytest.raises(PluginError, match=r"llm=FakeLlm\('an answer'\)"):
            harness.run_command("ask")
        harness.model_access = FakeLlm("hello yourself")
        assert harness.run_command("ask", "hello") == "hello yourself"
        assert harness.run_command("say", "hello") is True
        assert harness.injected == [("user", "hello")]


def test_what_is_not_a_plugin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"has no plugin\.yaml"):
        PluginHarness(tmp_path)


def test_a_recorder_works_as_a_plugin() -> None:
    recorder = EventRecorder()
    with PluginHarness(recorder.register) as harness:
        harness.fire("on_session_start", session_id="s")
        assert harness.execute("tool_execution", {"a": 1}, lambda args: args["a"]) == 1
        assert recorder.names(middleware=True) == ["on_session_start", "tool_execution"]
