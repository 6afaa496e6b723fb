"""Loading: which plugins, under what names, and what is left of one that fails."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes.base.errors import Interrupted, PluginError
from hermes.plugins.loading.loader import decide
from hermes.plugins.loading.manifest import PluginManifest
from support.plugin_rig import Rig
from support.waiting import wait_for

EVERYTHING = """
from pathlib import Path

def register(ctx):
    schema = {"description": "d", "parameters": {"type": "object", "properties": {}}}
    ctx.register_tool("fresh_tool", "mine", schema, lambda args, **kw: "{}")
    ctx.register_tool("read_file", "file", schema, lambda args, **kw: "{}", override=True)
    ctx.register_hook("pre_tool_call", lambda **kw: None)
    ctx.register_hook("post_tool_call", lambda **kw: None, background=True)
    ctx.register_middleware("tool_execution", lambda **kw: kw["next_call"]())
    ctx.register_command("hello", lambda raw: "hi")
    ctx.register_cli_command("greet", "help", lambda parser: None)
    ctx.register_skill("skill", Path(__file__))
    ctx.register_auxiliary_task("judge", display_name="Judge", description="judges")
    ctx.register_platform("irc", "IRC", object, lambda: True)
    ctx.register_memory_provider(object())
"""


# -- which -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "source", "decision"),
    [
        ("standalone", "user", "not enabled"),
        ("standalone", "bundled", "not enabled"),
        ("backend", "bundled", "load"),
        ("backend", "user", "not enabled"),
        ("platform", "bundled", "waiting"),
        ("platform", "user", "not enabled"),
        ("exclusive", "user", "waiting"),
        ("exclusive", "bundled", "waiting"),
        ("model-provider", "user", "waiting"),
    ],
)
def test_what_becomes_of_a_plugin_nobody_enabled(kind: str, source: str, decision: str) -> None:
    manifest = PluginManifest("n", "c/k", kind=kind, source=source)  # pyright: ignore[reportArgumentType]
    assert decide(manifest, set(), []) == decision
    assert decide(manifest, set(), ["c/k"]) == "disabled"
    assert decide(manifest, {"n"}, ["n"]) == "disabled", "being disabled always wins"
    assert decide(manifest, set(), ["c/k"], explicit=True) == "disabled"
    assert decide(manifest, set(), [], explicit=True) == "load"
    if decision == "not enabled":
        assert decide(manifest, {"c/k"}, []) == decide(manifest, {"n"}, []) == "load"


def test_only_what_is_enabled_is_imported(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wanted", "unwanted", "by-name/folder", "off"):
        rig.write(name, "import sys\nsys.test_imported.append(__name__)\ndef register(ctx): pass", "name: name-of-it")
    rig.write("auto", where="bundled", manifest="kind: backend")
    imported: list[str] = []
    monkeypatch.setattr(sys, "test_imported", imported, raising=False)
    rig.config.disabled = ["off"]
    plugins = rig.load(enabled=["name-of-it", "off"])
    assert {plugin.manifest.key: plugin.status for plugin in plugins} == {
        "auto": "loaded",
        "name-of-it": "loaded",
        "by-name/folder": "loaded",
    }
    assert sorted(imported) == ["hermes_plugins.by_name__folder", "hermes_plugins.name_of_it"]


def test_enabling_a_plugin_that_its_category_loads_is_explained(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.write("memory/mine", "register_memory_provider = object")
    plugins = rig.load(enabled=["memory/mine"])
    assert plugins.plugins["memory/mine"].status == "waiting"
    assert "kind 'exclusive' is loaded by the part of the runtime it belongs to" in caplog.text


def test_statuses_and_counters_of_all_plugins(rig: Rig) -> None:
    rig.write("good", 'def register(ctx): ctx.register_hook("post_tool_call", lambda: None)')
    rig.write("bad", "def register(ctx): raise ValueError('nope')")
    rig.write("off")
    rig.write("idle")
    rig.write("memory/mine", "register_memory_provider = object")
    rig.config.disabled = ["off"]
    plugins = rig.load(enabled=["good", "bad", "off"])
    assert {plugin.manifest.key: plugin.status for plugin in plugins} == {
        "bad": "failed",
        "good": "loaded",
        "idle": "not enabled",
        "memory/mine": "waiting",
        "off": "disabled",
    }
    assert [plugin.manifest.key for plugin in plugins.loaded] == ["good"]
    assert rig.hooks.post_tool_call is not None
    rig.hooks.post_tool_call.invoke(tool_name="t")
    assert [(callback.plugin, callback.calls) for callback in rig.hooks.stats()] == [("good", 1)]


def test_an_unknown_enabled_name_warns_with_a_suggestion(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.write("weather")
    rig.load(enabled=["wether"])
    assert "there is no plugin 'wether'; did you mean 'weather'?" in caplog.text


def test_extra_loads_one_without_enabling_it(rig: Rig) -> None:
    rig.write("observability/tracer")
    rig.write("memory/mine", "def register(ctx): ctx.register_memory_provider(1)")
    plugins = rig.load("tracer", "memory/mine", use_enabled=False, enabled=["something", "else"])
    assert [plugin.manifest.key for plugin in plugins.loaded] == ["memory/mine", "observability/tracer"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("trace", "there is no plugin 'trace'; did you mean 'tracer'?"),
        ("off", "plugin 'off' is in plugins.disabled"),
        ("bad", "plugin 'bad' cannot be loaded: ValueError: nope"),
        ("broken", "plugin 'broken' cannot be loaded: .*plugin.yaml: is not valid YAML"),
    ],
)
def test_extra_that_cannot_be_loaded_is_an_error(rig: Rig, name: str, message: str) -> None:
    rig.write("tracer")
    rig.write("off")
    rig.write("bad", "raise ValueError('nope')")
    rig.write("broken", manifest="[")
    rig.config.disabled = ["off"]
    with pytest.raises(PluginError, match=message):
        rig.load(name)


def test_use_enabled_false_hides_the_enabled_ones(rig: Rig) -> None:
    rig.write("usual")
    rig.write("auto", manifest="kind: backend", where="bundled")
    plugins = rig.load(enabled=["usual"], use_enabled=False)
    assert [plugin.manifest.key for plugin in plugins.loaded] == ["auto"]


def test_safe_mode_loads_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_SAFE_MODE", "1")
    rig.write("p")
    rig.write("auto", manifest="kind: backend", where="bundled")
    assert len(rig.load(enabled=["p"])) == 0
    with pytest.raises(PluginError, match="HERMES_SAFE_MODE is set"):
        rig.load("p")


def test_debug_output_goes_to_stderr(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    rig.write("p")
    rig.load(enabled=["p"])
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("HERMES_PLUGINS_DEBUG", "1")
    rig.load(enabled=["p"])
    assert "plugins: plugin 'p'  is loaded from user" in capfd.readouterr().err


def test_missing_variables_are_reported_and_do_not_keep_it_from_loading(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TEST_THERE", "x")
    rig.write("p", manifest="requires_env: [TEST_THERE, TEST_MISSING]")
    plugin = rig.load(enabled=["p"]).plugins["p"]
    assert (plugin.status, plugin.missing_env) == ("loaded", ["TEST_MISSING"])
    assert "TEST_MISSING is not set" in caplog.text


def test_with_nothing_enabled_nothing_is_scanned_or_imported(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from hermes.hooks.table import Hooks
from hermes.plugins.loading.loader import load_plugins
from hermes.tools.registry import ToolRegistry
class Config: enabled = []; disabled = []; entries = {{}}
home = Path({str(tmp_path)!r})
plugins = load_plugins(home=home, plugins_config=Config, tools=ToolRegistry(), hooks=Hooks(), services=None, cwd=home)
assert len(plugins.loaded) == 0
ours = ("hermes.plugins.context", "hermes.plugins.loading.entry_points")
heavy = ("yaml", "importlib.metadata", "asyncio", "difflib", *ours)
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert list(tmp_path.iterdir()) == []


# -- import ----------------------------------------------------------------------------------------------------------


def test_relative_imports_work_at_the_top_inside_functions_and_in_submodules(rig: Rig) -> None:
    folder = rig.write(
        "cat/my-plugin",
        """
from . import helper
from .sub.deep import depth

def register(ctx):
    from .late import late
    ctx.register_command("answer", lambda raw: f"{helper.name} {depth} {late} {__name__} {__package__}")
""",
    )
    (folder / "helper.py").write_text("name = 'helper'")
    (folder / "late.py").write_text("late = 'late'")
    (folder / "sub").mkdir()
    (folder / "sub" / "__init__.py").write_text("")
    (folder / "sub" / "deep.py").write_text("from ..helper import name\ndepth = f'deep {name}'")
    plugins = rig.load(enabled=["cat/my-plugin"])
    name = "hermes_plugins.cat__my_plugin"
    assert plugins.commands["answer"].handler("") == f"helper deep helper late {name} {name}"
    assert sys.modules[name].__file__ == str(folder / "__init__.py")


def test_two_plugins_with_the_same_submodule_do_not_meet(rig: Rig) -> None:
    for name in ("one", "two"):
        folder = rig.write(
            name, f"from .helper import value\ndef register(ctx): ctx.register_command('{name}', lambda raw: value)"
        )
        (folder / "helper.py").write_text(f"value = 'of {name}'")
    plugins = rig.load(enabled=["one", "two"])
    assert [plugins.commands[name].handler("") for name in ("one", "two")] == ["of one", "of two"]


def test_an_edited_plugin_is_loaded_as_it_is_now(rig: Rig) -> None:
    source = "from .part import name\ndef register(ctx): ctx.register_command('x', lambda raw: f'{name} %s')"
    folder = rig.write("p", source % "old")
    (folder / "part.py").write_text("name = 'part'")
    assert rig.load(enabled=["p"]).commands["x"].handler("") == "part old"
    (folder / "__init__.py").write_text(source % "the new one")
    (folder / "part.py").write_text("name = 'another part'")
    assert rig.load(enabled=["p"]).commands["x"].handler("") == "another part the new one"


def test_an_entry_point_is_a_module_an_object_or_a_function(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "packed_plugin.py").write_text(
        "class Holder:\n"
        "    class inner:\n"
        "        @staticmethod\n"
        "        def register(ctx): ctx.register_command('object', lambda raw: ctx.manifest.key)\n"
        "def register(ctx): ctx.register_command('module', lambda raw: ctx.manifest.key)\n"
        "def start(ctx): ctx.register_command('function', lambda raw: ctx.manifest.key)\n"
        "nothing = 5\n"
    )
    info = tmp_path / "packed_plugin-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: packed-plugin\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[hermes_agent.plugins]\n"
        "as-module = packed_plugin\nas-object = packed_plugin:Holder.inner [extra]\n"
        "as-function = packed_plugin:start\nas-nothing = packed_plugin:nothing\n"
        "missing = no_such_module_anywhere\n"
    )
    plugins = rig.load(enabled=["as-module", "as-object", "as-function", "as-nothing", "missing"])
    assert plugins.commands["module"].handler("") == "as-module"
    assert plugins.commands["object"].handler("") == "as-object"
    assert plugins.commands["function"].handler("") == "as-function"
    assert plugins.plugins["as-nothing"].error == "it has no register(ctx) function"
    assert plugins.plugins["missing"].status == "failed"
    assert "no_such_module_anywhere" in plugins.plugins["missing"].error


# -- failure ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("x = 1", "it has no register(ctx) function"),
        ("register = 5", "it has no register(ctx) function"),
        (None, "has no __init__.py"),
        ("def broken(:", "SyntaxError"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("def register(): pass", "TypeError"),
        ("def register(ctx): raise RuntimeError('in register')", "RuntimeError: in register"),
        ("async def register(ctx): raise RuntimeError('in a coroutine')", "RuntimeError: in a coroutine"),
    ],
)
def test_a_plugin_that_fails_is_recorded_and_others_load(
    rig: Rig, caplog: pytest.LogCaptureFixture, source: str | None, error: str
) -> None:
    rig.write("bad", source)
    rig.write("good")
    plugins = rig.load(enabled=["bad", "good"])
    assert plugins.plugins["bad"].status == "failed"
    assert error in plugins.plugins["bad"].error
    assert plugins.plugins["good"].status == "loaded"
    assert "plugin 'bad' is not loaded" in caplog.text
    assert "hermes_plugins.bad" not in sys.modules


def test_an_async_register_is_awaited(rig: Rig) -> None:
    rig.write("p", "async def register(ctx): ctx.register_command('x', lambda raw: 'ok')")
    assert rig.load(enabled=["p"]).commands["x"].handler("") == "ok"


def test_register_is_a_transaction(rig: Rig) -> None:
    failing = EVERYTHING + "    global kept\n    kept = ctx\n    raise ValueError('at the very end')\n"
    rig.write("p", failing, "kind: standalone")
    rig.write("other", "def register(ctx): ctx.register_hook('pre_tool_call', lambda **kw: None)")
    rig.config.entries = {"p": {"allow_tool_override": True}}
    builtin = dict(rig.tools.all())
    plugins = rig.load(enabled=["p", "other"])
    record = plugins.plugins["p"]
    assert record.status == "failed"
    assert dict(rig.tools.all()) == builtin
    assert [(callback.plugin, callback.site) for callback in rig.hooks.stats()] == [("other", "pre_tool_call")]
    assert (plugins.commands, plugins.cli_commands, plugins.skills, plugins.auxiliary_tasks) == ({}, {}, {}, {})
    assert (record.tools, record.hooks, record.middleware, record.waiting) == ([], [], [], [])


def test_a_failed_plugin_cannot_register_afterwards(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(sys, "test_kept", kept, raising=False)
    rig.write("p", "def register(ctx):\n    import sys\n    sys.test_kept.append(ctx)\n    raise ValueError")
    rig.load(enabled=["p"])
    with pytest.raises(PluginError, match="failed to load"):
        kept[0].register_hook("pre_tool_call", print)
    assert not rig.hooks.has("pre_tool_call")


def test_an_interrupt_while_loading_is_not_swallowed(rig: Rig) -> None:
    source = (
        "from hermes.base.errors import Interrupted\n"
        "def register(ctx):\n    ctx.register_hook('pre_tool_call', print)\n    raise Interrupted"
    )
    rig.write("p", source)
    with pytest.raises(Interrupted):
        rig.load(enabled=["p"])
    assert not rig.hooks.has("pre_tool_call")


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit", "GeneratorExit"])
@pytest.mark.parametrize("where", ["import", "register"])
def test_any_exception_while_loading_is_the_plugins_failure(rig: Rig, raised: str, where: str) -> None:
    code = f"raise {raised}('stop')"
    rig.write("p", code if where == "import" else f"def register(ctx):\n    {code}")
    rig.write("q", "def register(ctx): pass")
    plugins = rig.load(enabled=["p", "q"])
    assert plugins.plugins["p"].status == "failed"
    assert plugins.plugins["p"].error == f"{raised}: stop"
    assert plugins.plugins["q"].status == "loaded"


BLOCK = "import builtins\nbuiltins.gate_of_the_test.wait(60)\n"


@pytest.mark.parametrize("where", ["import", "register"])
def test_loading_that_does_not_end_is_given_up_and_changes_nothing_later(
    rig: Rig, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, refused = threading.Event(), threading.Event()
    monkeypatch.setattr("builtins.gate_of_the_test", gate, raising=False)
    monkeypatch.setattr("builtins.refused_of_the_test", refused, raising=False)
    late = (
        "    try:\n        ctx.register_hook('pre_tool_call', print)\n"
        "    except Exception:\n        builtins.refused_of_the_test.set()\n"
    )
    body = "def register(ctx):\n    import builtins\n    builtins.gate_of_the_test.wait(60)\n" + late
    rig.write("slow", BLOCK if where == "import" else body)
    rig.write("q", "def register(ctx): pass")
    rig.config.entries = {"slow": {"load_timeout": 0.05}}
    plugins = rig.load(enabled=["slow", "q"])
    record = plugins.plugins["slow"]
    assert (record.status, plugins.plugins["q"].status) == ("failed", "loaded")
    assert f"its {where} did not end: it has done nothing for 0.05 s" in record.error
    assert "plugins.entries.slow.load_timeout" in record.error
    gate.set()
    if where == "register":
        wait_for(refused, "the late registration is refused")
    assert not rig.hooks.has("pre_tool_call")


def test_loading_that_computes_without_end_is_given_up(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr("builtins.gate_of_the_test", gate, raising=False)
    rig.write("busy", "import builtins\nwhile not builtins.gate_of_the_test.is_set():\n    pass\n")
    rig.config.load_timeout = 0.1
    try:
        record = rig.load(enabled=["busy"]).plugins["busy"]
    finally:
        gate.set()
    assert "its import did not end: it has computed for 0.1 s" in record.error


@pytest.mark.parametrize("where", ["import", "register"])
def test_a_lowered_recursion_limit_is_set_back(rig: Rig, where: str) -> None:
    before = sys.getrecursionlimit()
    lower = "import sys\nsys.setrecursionlimit(60)\n"
    register = "def register(ctx): pass\n"
    rig.write("p", lower + register if where == "import" else register.replace("pass", lower.replace("\n", "; ")))
    assert rig.load(enabled=["p"]).plugins["p"].status == "loaded"
    assert sys.getrecursionlimit() == before


def test_everything_that_was_registered_is_on_record(rig: Rig) -> None:
    rig.write("p", EVERYTHING, "name: named\nkind: standalone")
    rig.config.entries = {"named": {"allow_tool_override": True}}
    plugins = rig.load(enabled=["named"])
    record = plugins.plugins["named"]
    assert record.status == "loaded", record.error
    assert record.tools == ["fresh_tool", "read_file"]
    assert record.hooks == ["pre_tool_call", "post_tool_call"]
    assert record.middleware == ["tool_execution"]
    assert list(plugins.commands) == ["hello"]
    assert list(plugins.cli_commands) == ["greet"]
    assert list(plugins.skills) == ["named:skill"]
    assert list(plugins.auxiliary_tasks) == ["judge"]
    assert [(entry.kind, entry.name) for entry in record.waiting] == [
        ("platform", "irc"),
        ("memory_provider", "object"),
    ]
    assert [entry.name for entry in plugins.waiting("platform")] == ["irc"]


@pytest.mark.parametrize(
    ("module", "base", "kind"),
    [
        ("agent.memory_provider", "MemoryProvider", "memory_provider"),
        ("agent.context_engine", "ContextEngine", "context_engine"),
    ],
)
def test_a_module_without_register_may_be_a_provider(rig: Rig, module: str, base: str, kind: str) -> None:
    rig.write("p", f"from {module} import {base}\nclass Own({base}):\n    name = 'own'\n", "kind: standalone")
    plugins = rig.load(enabled=["p"])
    assert [(offer.kind, offer.name) for offer in plugins.plugins["p"].waiting] == [(kind, "own")]


def test_a_module_without_register_is_said_to_have_none(rig: Rig) -> None:
    rig.write("p", "from agent.memory_provider import MemoryProvider\n", "kind: standalone")
    assert rig.load(enabled=["p"]).plugins["p"].error == "it has no register(ctx) function"
