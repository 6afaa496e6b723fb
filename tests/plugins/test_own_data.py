"""What a plugin has of its own: settings that it writes, and values that outlive the process."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import load_config
from hermes.base.errors import ConfigError
from hermes.plugins.context import PluginContext
from hermes.plugins.ctx.state import QUOTA_BYTES, PluginState
from support.plugin_rig import Rig

KEEP = "def register(ctx): ctx.register_command('ctx', lambda raw: ctx)"


def context(rig: Rig, name: str = "mine", manifest: str = "") -> PluginContext:
    rig.write(name, KEEP, manifest)
    plugins = rig.load(name)
    return plugins.plugins[name].commands["ctx"].handler("")


# -- settings --------------------------------------------------------------------------------------------------------


def test_a_setting_is_written_and_counts_at_once(rig: Rig) -> None:
    rig.home.mkdir()
    file = rig.home / "config.yaml"
    file.write_text("# mine\nplugins:\n  entries:\n    mine: {allow_tool_override: true}  # kept\n")
    rig.config.entries["mine"] = {"allow_tool_override": True}
    ctx = context(rig, manifest="name: mine\nconfig_schema:\n  keep: {type: int, default: 20}\n  retry: {type: dict}\n")
    assert ctx.get_config("keep") == 20
    ctx.set_config("keep", 5)
    ctx.set_config("retry.policy", ["a", "b"])
    assert (ctx.get_config("keep"), ctx.get_config("retry.policy")) == (5, ["a", "b"])
    assert ctx.has_capability("tools.override"), "what else the entry has stays"
    stored = load_config(rig.home).config.plugins.entries["mine"]
    assert stored == {"allow_tool_override": True, "settings": {"keep": 5, "retry": {"policy": ["a", "b"]}}}
    assert "# mine" in file.read_text()


@pytest.mark.parametrize("key", ["", ".", "a..b", "../x", "a/b", 'a"b', "a.", " a"])
def test_only_names_of_own_settings_are_written(rig: Rig, key: str) -> None:
    ctx = context(rig)
    with pytest.raises(ValueError, match="a name of a setting is expected"):
        ctx.set_config(key, 1)
    assert not (rig.home / "config.yaml").exists()


def test_a_value_that_the_schema_does_not_allow_is_refused(rig: Rig) -> None:
    ctx = context(rig, manifest="name: mine\nconfig_schema:\n  keep: {type: int, default: 20}\n")
    with pytest.raises(ValueError, match=r"set_config: plugins.entries.mine.settings.keep is 'many'; a whole number"):
        ctx.set_config("keep", "many")
    assert ctx.get_config("keep") == 20


def test_a_file_that_cannot_be_read_is_not_replaced(rig: Rig) -> None:
    ctx = context(rig)
    (rig.home / "config.yaml").write_text("plugins: [")
    with pytest.raises(ConfigError):
        ctx.set_config("keep", 1)
    assert (rig.home / "config.yaml").read_text() == "plugins: ["
    assert ctx.get_config("keep") is None


# -- state -----------------------------------------------------------------------------------------------------------


def test_values_outlive_the_process_and_are_private(rig: Rig) -> None:
    state = context(rig).state
    assert state.get("seen", []) == []
    assert not state.data_dir.exists(), "nothing is made before something is stored"
    state.set("seen", [1, {"a": None}])
    assert state.data_dir == rig.home / "plugin-data" / "mine"
    assert state.path.stat().st_mode & 0o777 == 0o600
    assert PluginState(*_parts(state)).get("seen") == [1, {"a": None}]


def test_plugins_do_not_see_each_other_and_none_leaves_the_folder(rig: Rig) -> None:
    rig.write("tools/one", KEEP)
    nested = rig.load("tools/one").plugins["tools/one"].commands["ctx"].handler("").state
    assert nested.data_dir == rig.home / "plugin-data" / "tools__one"
    rig.write("odd", KEEP, "name: ../../odd")
    odd = rig.load("../../odd").plugins["../../odd"].commands["ctx"].handler("").state
    assert odd.data_dir.resolve().parent == rig.home / "plugin-data"


@pytest.mark.parametrize("key", ["", "..", "a..b", "a b", "a/b", "x" * 129, 5])
def test_keys(rig: Rig, key: Any) -> None:
    state = context(rig).state
    for attempt in (lambda: state.get(key), lambda: state.set(key, 1)):
        with pytest.raises(ValueError, match="is no key of a state"):
            attempt()


def test_what_json_cannot_hold_and_too_much_are_refused(rig: Rig) -> None:
    state = context(rig).state
    state.set("kept", 1)
    with pytest.raises(ValueError, match="nothing that JSON can hold"):
        state.set("bad", object())
    assert state.quota_bytes == QUOTA_BYTES
    with pytest.raises(ValueError, match="the state of plugin 'mine' would have"):
        state.set("large", "x" * QUOTA_BYTES)
    assert json.loads(state.path.read_text()) == {"kept": 1}
    state.path.write_text("[1]")
    with pytest.raises(RuntimeError, match="not a JSON object"):
        state.get("kept")


def test_writers_at_the_same_time_lose_nothing(rig: Rig, tmp_path: Path) -> None:
    state = context(rig).state
    code = (
        "import sys, types; from pathlib import Path; from hermes.plugins.ctx.state import PluginState\n"
        "from hermes.plugins.loading.manifest import PluginManifest\n"
        "host = types.SimpleNamespace(services=types.SimpleNamespace(home=Path(sys.argv[1])))\n"
        "state = PluginState(host, PluginManifest('mine', 'mine'))\n"
        "for number in range(20): state.set(f'other{number}', number)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(rig.home)])
    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(state.set, f"own{number}", number) for number in range(20)]:
            done.result()
    assert other.wait(60) == 0
    assert len(json.loads(state.path.read_text())) == 40


def test_another_plugin_is_found_by_key_or_name(rig: Rig) -> None:
    rig.write("tools/one", KEEP.replace("'ctx'", "'one'"), "name: first")
    rig.write("off")
    rig.config.enabled = ["tools/one"]
    ctx = context(rig)
    assert ctx.plugin_id == "mine"
    assert [ctx.has_plugin(name) for name in ("mine", "tools/one", "first", "off")] == [True, True, True, False]


def _parts(state: PluginState) -> tuple[Any, Any]:
    return state._host, state._manifest  # pyright: ignore[reportPrivateUsage]
