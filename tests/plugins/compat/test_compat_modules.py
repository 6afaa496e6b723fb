"""What is behind the names for hooks, middleware and tools."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.plugins.registry import LoadedPlugin
from support.compat_rig import namespace
from support.plugin_rig import Rig, giving


def same(value: Any) -> Any:
    """A call that gives back its payload."""
    return value


def number(args: dict[str, int]) -> int:
    """A call that reads its payload."""
    return args["n"]


# -- hermes_cli.plugins ----------------------------------------------------------------------------------------------


BUSY = """
def register(ctx):
    ctx.register_hook("pre_tool_call", lambda tool_name, **kw: verdicts.get(tool_name))
    ctx.register_hook("pre_tool_call", broken)
    ctx.register_hook("post_tool_call", lambda **kw: kw["telemetry_schema_version"])
    ctx.register_middleware("tool_request", lambda args, **kw: {"args": {**args, "n": args["n"] + 1}, "reason": "more"})
    ctx.register_middleware("tool_request", later)
    ctx.register_middleware("tool_execution", lambda next_call, args, **kw: f"<{next_call()}>")
    ctx.register_middleware("llm_execution", lambda next_call, **kw: next_call())
    ctx.register_command("tldr", lambda raw: raw, "Summarises.", "<text>")
    ctx.register_cli_command("greet", "Greets.", print)
    ctx.register_tool("busy_tool", "busy_set", {"description": "d"}, lambda args, **kw: "{}")
    for key in ("zeta", "alpha"):
        ctx.register_auxiliary_task(key, display_name=key, description="d")

verdicts = {
    "bad": {"action": "block", "message": "no"},
    "ask": {"action": "approve", "message": "really?"},
    "empty": {"action": "block"},
    "odd": "block",
}

def broken(**kw): raise ValueError("broken")
async def later(args, **kw): return {"args": {**args, "n": args["n"] + 10}}
"""


def test_hooks_can_be_invoked(rig: Rig) -> None:
    plugins = namespace(rig, "hermes_cli.plugins", BUSY)
    assert {"pre_tool_call", "post_api_request", "subagent_stop"} <= plugins.VALID_HOOKS
    assert plugins.has_hook("pre_tool_call")
    assert not plugins.has_hook("post_llm_call")
    assert not plugins.has_hook("tool_request"), "a kind of middleware is no hook"
    assert not plugins.has_hook("background")
    assert plugins.invoke_hook("pre_tool_call", tool_name="bad", args={}) == [{"action": "block", "message": "no"}]
    assert plugins.invoke_hook("post_tool_call") == ["hermes.observer.v1"]
    assert plugins.invoke_hook("post_llm_call") == plugins.invoke_hook("subscribe") == []


@pytest.mark.parametrize(
    ("tool", "directive", "blocked"),
    [
        ("bad", ("block", "no"), "no"),
        ("ask", ("approve", "really?"), r"ask needs approval (really?) and no one can be asked here"),
        ("empty", (None, None), None),
        ("odd", (None, None), None),
        ("fine", (None, None), None),
    ],
)
def test_directives(rig: Rig, tool: str, directive: Any, blocked: str | None) -> None:
    plugins = namespace(rig, "hermes_cli.plugins", BUSY)
    assert plugins.get_pre_tool_call_directive(tool, {"a": 1}, session_id="s") == directive
    message = plugins.get_pre_tool_call_block_message(tool, None, "task")
    assert message == (directive[1] if directive[0] == "block" else None)
    assert plugins.resolve_pre_tool_block(tool, {}, tool_call_id="c") == blocked


@pytest.mark.parametrize("order", [("approve", "block"), ("block", "approve")])
def test_a_block_is_the_directive_in_every_order(rig: Rig, order: tuple[str, str]) -> None:
    register = "".join(
        f"    ctx.register_hook('pre_tool_call', lambda **_: {{'action': {action!r}, 'message': {action!r}}})\n"
        for action in order
    )
    plugins = namespace(rig, "hermes_cli.plugins", f"def register(ctx):\n{register}")
    assert plugins.get_pre_tool_call_directive("terminal", {}) == ("block", "block")
    assert plugins.resolve_pre_tool_block("terminal", {}) == "block"


def test_the_manager_can_be_read(rig: Rig) -> None:
    plugins = namespace(rig, "hermes_cli.plugins", BUSY)
    manager = plugins.get_plugin_manager()
    assert isinstance(manager, plugins.PluginManager)
    key = f"other{len(BUSY)}"
    loaded = manager._plugins[key]
    assert isinstance(loaded, plugins.LoadedPlugin)
    assert (loaded.enabled, loaded.error, loaded.manifest.key) == (True, None, key)
    assert isinstance(loaded.manifest, plugins.PluginManifest)
    assert loaded.tools_registered == ["busy_tool"]
    assert loaded.commands_registered == ["tldr"]
    assert {name: len(callbacks) for name, callbacks in manager._hooks.items()} == {
        "pre_tool_call": 2,
        "post_tool_call": 1,
    }
    assert manager._hooks["pre_tool_call"][0](tool_name="bad") == {"action": "block", "message": "no"}
    assert sorted(manager._middleware) == ["llm_execution", "tool_execution", "tool_request"]
    assert manager._cli_ref is None
    assert sorted(manager._plugin_commands) == ["module", "tldr"]
    assert manager._plugin_commands["tldr"]["args_hint"] == "<text>"
    assert plugins.get_plugin_command_handler("tldr")("x") == "x"
    assert plugins.get_plugin_command_handler("none") is None
    assert plugins.get_plugin_commands() == manager._plugin_commands
    assert list(plugins.get_plugin_cli_commands()) == ["greet"]
    assert [task["key"] for task in plugins.get_plugin_auxiliary_tasks()] == ["alpha", "zeta"]
    assert plugins.get_plugin_toolsets() == [("busy_set", "Busy Set", "")]
    assert plugins.get_plugin_tool_names() == {"busy_tool"}
    assert [(entry["key"], entry["enabled"]) for entry in manager.list_plugins()] == [("looks", True), (key, True)]
    assert plugins.discover_plugins(force=True) is None
    manager._hooks.clear()
    assert plugins.has_hook("pre_tool_call"), "what it shows is a copy"


def test_middleware_can_be_invoked(rig: Rig) -> None:
    plugins = namespace(rig, "hermes_cli.plugins", BUSY)
    assert plugins.has_middleware("tool_request")
    assert not plugins.has_middleware("llm_request")
    assert not plugins.has_middleware("pre_tool_call")
    answers = plugins.invoke_middleware("tool_request", args={"n": 0})
    assert [answer["args"]["n"] for answer in answers] == [1, 10]
    assert plugins.invoke_middleware("tool_request") == [], "callbacks that fail are left out"
    assert plugins.invoke_middleware("no_such_kind") == []


# -- hermes_cli.middleware -------------------------------------------------------------------------------------------


def test_request_middleware_is_chained(rig: Rig) -> None:
    middleware = namespace(rig, "hermes_cli.middleware", BUSY)
    args = {"n": 0}
    result = middleware.apply_tool_request_middleware("t", args, session_id="s")
    assert isinstance(result, middleware.RequestMiddlewareResult)
    assert (result.payload, result.original_payload, result.changed) == ({"n": 11}, {"n": 0}, True)
    assert result.trace == [{"reason": "more"}, {"source": f"other{len(BUSY)}"}]
    assert args == {"n": 0}
    request = {"model": "m"}
    untouched = middleware.apply_llm_request_middleware(request, session_id="s")
    assert untouched.payload is request
    assert (untouched.changed, untouched.trace) == (False, [])


def test_execution_middleware_wraps(rig: Rig) -> None:
    middleware = namespace(rig, "hermes_cli.middleware", BUSY)
    run_tool = middleware.run_tool_execution_middleware
    assert run_tool("t", {"n": 1}, number, original_args={"n": 0}) == "<1>"
    assert middleware.run_llm_execution_middleware({"m": 1}, same) == {"m": 1}
    assert middleware.run_api_execution_middleware is middleware.run_llm_execution_middleware
    with pytest.raises(KeyError):
        run_tool("t", {}, number)


def test_the_words_of_the_contract(rig: Rig) -> None:
    middleware = namespace(rig, "hermes_cli.middleware")
    kinds = {"llm_request", "llm_execution", "tool_request", "tool_execution"}
    assert kinds == middleware.VALID_MIDDLEWARE
    assert {getattr(middleware, f"{kind.upper()}_MIDDLEWARE") for kind in kinds} == kinds
    assert middleware.API_REQUEST_MIDDLEWARE == "llm_request"
    assert middleware.observer_payload(a=1) == {"telemetry_schema_version": middleware.OBSERVER_SCHEMA_VERSION, "a": 1}
    assert middleware.middleware_payload()["middleware_schema_version"] == middleware.MIDDLEWARE_SCHEMA_VERSION
    assert middleware.run_tool_execution_middleware("t", {"n": 1}, same) == {"n": 1}


# -- tools.registry --------------------------------------------------------------------------------------------------

REGISTERS = """
from functools import partial
from tools.registry import registry, tool_error, tool_result

def handle(mark, args, **kw): return tool_result(mark=mark, args=args)
class Handler:
    def __call__(self, args, **kw): return tool_error("object", kind=1)

registry.register(name="at_import", toolset="mine", schema={"description": "d"}, handler=partial(handle, 1), emoji="*")

def register(ctx):
    registry.register("in_register", "mine", {}, Handler(), check_fn=lambda: False, max_result_size_chars=5)
    registry.register("borrowed", "mine", {}, print)
    ctx.register_command("a", lambda raw: registry.register(raw, "mine", {}, lambda args, **kw: "later"))
"""


def test_tools_registered_through_the_registry_are_the_plugins(rig: Rig) -> None:
    rig.write("r", REGISTERS)
    record: LoadedPlugin = rig.load(enabled=["r"]).plugins["r"]
    assert record.error == ""
    assert record.tools == ["at_import", "in_register", "borrowed"]
    record.commands["a"].handler("afterwards")
    assert record.tools[-1] == "afterwards"
    tool = rig.tools.get("at_import")
    assert tool is not None
    assert (tool.plugin, tool.toolset, tool.emoji) == ("r", "mine", "*")


def test_the_registry_keeps_to_the_rules_of_ctx(rig: Rig) -> None:
    builtin = dict(rig.tools.all())
    taken = "from tools.registry import registry\ndef h(args, **kw): return '{}'\n"
    rig.write("asks", taken + "registry.register('terminal', 'terminal', {}, h)\ndef register(ctx): pass")
    rig.write("insists", taken + "registry.register('terminal', 't', {}, h, override=True)\ndef register(ctx): pass")
    rig.write("fails", taken + "registry.register('fresh', 't', {}, h)\ndef register(ctx): raise ValueError")
    plugins = rig.load(enabled=["asks", "insists", "fails"])
    assert "already registered by the runtime" in plugins.plugins["asks"].problems[0]
    assert "may not override tool 'terminal'" in plugins.plugins["insists"].error
    assert plugins.plugins["fails"].status == "failed"
    assert dict(rig.tools.all()) == builtin


def test_the_registry_can_be_read_and_used(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    busy = "def register(ctx):\n    for name in ('x1', 'x2'):\n        ctx.register_tool(name, 'xs', "
    busy += "{'description': name}, lambda args, **kw: '{}', check_fn=lambda: False if name == 'x2' else True)"
    module = namespace(rig, "tools.registry", busy)
    registry = module.registry
    assert isinstance(registry, module.ToolRegistry)
    assert {"terminal", "x1", "x2"} <= set(registry.get_all_tool_names())
    entry = registry.get_entry("x1")
    assert (entry.name, entry.toolset, entry.schema["description"]) == ("x1", "xs", "x1")
    assert registry._tools["x1"].name == "x1"
    assert registry.get_entry("none") is registry.get_schema("none") is registry.get_toolset_for_tool("none") is None
    assert registry.get_schema("x1")["name"] == "x1"
    registry.get_schema("x1")["parameters"]["properties"]["planted"] = 1
    assert "planted" not in str(registry.get_schema("x1"))
    assert registry.get_toolset_for_tool("terminal") == "terminal"
    assert registry.get_tool_to_toolset_map()["x2"] == "xs"
    assert "xs" in registry.get_registered_toolset_names()
    assert registry.get_tool_names_for_toolset("xs") == ["x1", "x2"]
    assert registry.get_tool_names_for_toolset("none") == []
    assert registry.get_emoji("x1", "?") == registry.get_emoji("none", "?") == "?"
    assert registry.is_toolset_available("terminal")
    assert not registry.is_toolset_available("none")
    names = [one["function"]["name"] for one in registry.get_definitions(["read_file", "none"])]
    assert names == ["read_file"]
    assert registry.dispatch("x1", {"a": 1}, task_id="t") == entry.handler({"a": 1}, task_id="t") == "dispatched"
    assert rig.asked == [("x1", {"a": 1}, {"task_id": "t"})] * 2
    assert registry.dispatch("none", {}) == '{"error":"Unknown tool: none"}'
    registry.deregister("x1")
    registry.deregister("none")
    registry.deregister("terminal")
    assert rig.tools.get("x1") is None
    assert rig.tools.get("terminal") is not None
    assert "the runtime's own; it stays" in caplog.text
    with pytest.raises(Exception, match="it is not known which plugin the tool belongs to"):
        registry.register("stray", "t", {}, giving("{}"))


def test_results_as_plugins_write_them(rig: Rig) -> None:
    module = namespace(rig, "tools.registry")
    assert module.tool_error("bad", code=3) == '{"error":"bad","code":3}'
    assert module.tool_result(a=1) == module.tool_result({"a": 1}) == '{"a":1}'
    assert module.tool_result([1, "\ud800"]) == '[1,"\ufffd"]'
    assert module.tool_result(0) == "0"
    assert module.tool_result() == "{}"
