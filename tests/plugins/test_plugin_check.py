"""Judging plugins without running them: every rule fires on a bad one and none on a good one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.plugins.check import PluginFinding, asks_for_override, check_folder, check_plugin
from hermes.plugins.loading.manifest import PluginManifest
from support.git_repository import MANIFEST, write_plugin

GOOD = MANIFEST.format(name="p")


def findings(tmp_path: Path, manifest: str = GOOD, code: str = "def register(ctx): pass\n") -> list[PluginFinding]:
    return check_folder(write_plugin(tmp_path / "p", manifest, code))


def test_a_good_plugin_has_nothing_to_complain_about(tmp_path: Path) -> None:
    manifest = GOOD + (
        "kind: backend\nmanifest_version: 1\nauthor: me\nprovides_tools: [t]\nprovides_hooks: [pre_tool_call]\n"
        "requires_env:\n  - A_KEY\n  - {name: B, description: b, url: 'http://x', secret: false}\nplatforms: [linux]\n"
    )
    code = (
        "HOOK = 'post_tool_call'\n"
        "async def register(context, *more):\n"
        "    context.register_hook('pre_tool_call', print)\n"
        "    context.register_hook(hook_name=HOOK, callback=print)\n"
        "    context.register_middleware('tool_request', print)\n"
        "    for name in more: context.register_hook(name, print)\n"
        "    context.register_tool('t', 's', {}, print)\n"
        "    text = '\\d'\n"
    )
    assert findings(tmp_path, manifest, code) == []


@pytest.mark.parametrize(
    ("manifest", "rule", "text", "line"),
    [
        ("name: p\nverson: 1\n", "manifest-field", "there is no field 'verson'; did you mean 'version'?", 2),
        ("name: [p]\n", "manifest-type", "name is a list; text is expected", 1),
        ("name: a/b\n", "manifest-name", "name is 'a/b'; allowed: letters, digits", 1),
        ("name: p\nkind: backnd\n", "manifest-kind", "kind is 'backnd'; allowed: standalone, backend", 2),
        ("kind: [x]\n", "manifest-kind", "kind is ['x']", 1),
        ("manifest_version: 3\n", "manifest-version", "update hermes first", 1),
        ("requires_hermes: '>=99'\n", "manifest-requires", "it is for hermes >=99 (requires_hermes)", 1),
        ("requires_hermes: newest\n", "manifest-requires", "'newest' is no version specifier", 1),
        ("capabilities: [tools.overide]\n", "capability-name", "did you mean 'tools.override'?", 1),
        ("python_dependencies: ['a b']\n", "manifest-requirement", "'b' is no version specifier", 1),
        ("config_schema: [a]\n", "manifest-type", "config_schema is a list", 1),
        ("config_schema: {a: {type: text}}\n", "manifest-schema", "the type of 'a' is 'text'", 1),
        ("manifest_version: true\n", "manifest-version", "a whole number", 1),
        ("provides_tools: t\n", "manifest-type", "provides_tools is a str; a list is expected", 1),
        ("provides_tools: [1]\n", "manifest-type", "provides_tools has a int", 1),
        ("provides_hooks: [pre_tool]\n", "hook-name", "there is no hook 'pre_tool'; did you mean 'pre_tool_call'?", 1),
        ("requires_env: [a-b]\n", "manifest-env", "'a-b' is not the name of a variable", 1),
        ("requires_env: [{description: x}]\n", "manifest-env", "None is not the name", 1),
        ("requires_env: [{name: A, secret: maybe}]\n", "manifest-env", "secret is a str; true or false", 1),
        ("- x\n", "manifest-unreadable", "holds a list", 0),
    ],
)
def test_manifests(manifest: str, rule: str, text: str, line: int, tmp_path: Path) -> None:
    matching = [one for one in findings(tmp_path, manifest) if one.rule == rule and text in one.text]
    assert [(Path(one.file).name, one.line) for one in matching] == [("plugin.yaml", line)]


def test_a_provider_class_needs_no_register(tmp_path: Path) -> None:
    code = "import agent.context_engine\nclass Own(agent.context_engine.ContextEngine): pass"
    assert findings(tmp_path, "name: p\nversion: 1\ndescription: d", code) == []


@pytest.mark.parametrize(
    ("code", "rule", "text", "line"),
    [
        ("", "register", "it has no register(ctx) function", 0),
        ("def register(): pass", "register", "register takes no argument", 1),
        ("def register(ctx):\n  ctx.register_hook('pre_tool', f)", "hook-name", "did you mean 'pre_tool_call'?", 2),
        (
            "NAME = 'tool_exec'\ndef register(c):\n  c.register_middleware(kind=NAME)",
            "middleware-name",
            "there is no middleware kind 'tool_exec'; did you mean 'tool_execution'?",
            3,
        ),
        (
            "def register(c):\n  c.register_tol()",
            "ctx-member",
            "ctx has no register_tol; did you mean 'register_tool'?",
            2,
        ),
        ("def register(ctx:\n", "syntax", "is not valid Python", 1),
        ("x = '\0'", "syntax", "is not valid Python", 0),
    ],
)
def test_code(code: str, rule: str, text: str, line: int, tmp_path: Path) -> None:
    errors = [one for one in findings(tmp_path, code=code) if one.severity == "error"]
    assert [(one.rule, one.line) for one in errors] == [(rule, line)]
    assert text in errors[0].text
    assert Path(errors[0].file).name == "__init__.py"


@pytest.mark.parametrize(
    "code",
    [
        "from .main import register",
        "from .main import setup as register",
        "from .main import *",
        "import x\nregister = x.make()",
        "register: object = None",
        "try:\n  def register(ctx): pass\nexcept Exception: pass",
    ],
)
def test_register_may_come_from_anywhere(code: str, tmp_path: Path) -> None:
    assert findings(tmp_path, code=code) == []


def test_every_file_is_read_but_tests_are_not(tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "p", GOOD)
    for name in ("inner", "tests", ".venv"):
        (folder / name).mkdir()
        (folder / name / "module.py").write_text("def f(ctx):\n    ctx.register_hook('nope', f)\n")
    assert [one.location for one in check_folder(folder)] == [f"{folder}/inner/module.py:2"]


def test_a_folder_that_is_no_plugin(tmp_path: Path) -> None:
    assert [one.rule for one in check_folder(tmp_path)] == ["manifest-missing", "register"]


def test_nothing_is_run(tmp_path: Path) -> None:
    findings(tmp_path, code="raise SystemExit\nopen('ran', 'w')\ndef register(ctx): pass")
    assert not Path("ran").exists()


def test_entry_points_are_read_where_they_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_plugin_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "hooks.py").write_text("def register(ctx): ctx.register_hook('nope', register)\n")
    (tmp_path / "some_plugin_module.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]

    def rules(value: str) -> list[str]:
        return [one.rule for one in check_plugin(PluginManifest("e", "e", source="entrypoint", entry_point=value))]

    assert rules("some_plugin_package.hooks") == ["hook-name"]
    assert rules("some_plugin_package:thing [extra]") == ["hook-name"]
    assert rules("some_plugin_package") == ["register", "hook-name"]
    assert rules("some_plugin_module") == ["register"]
    assert rules("no_such_package_here.x") == ["register"]


def test_overrides_are_seen(tmp_path: Path) -> None:
    call = "def register(ctx): ctx.register_tool('t', 's', {{}}, f, override={})\n"
    assert asks_for_override(write_plugin(tmp_path / "a", code=call.format("True")))
    assert not asks_for_override(write_plugin(tmp_path / "b", code=call.format("False")))
    assert not asks_for_override(write_plugin(tmp_path / "c", code="("))
