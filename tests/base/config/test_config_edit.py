"""Changing ``config.yaml``: comments stay, nothing is ever lost, and two writers both get their way."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes.base.config import config_path, load_config
from hermes.base.config.edit import edit_config, edit_list, replace_config, split_key, unset_config
from hermes.base.errors import ConfigError

WRITTEN = """\
# My settings
model:
    # the good one
    default: small   # for now
    provider: "custom"

agent:
    max_turns: 5

plugins:
    enabled:
        - a     # first
        - b
approvals: {mode: off}
"""


@pytest.fixture
def path(home: Path) -> Path:
    home.mkdir()
    path = config_path(home)
    path.write_text(WRITTEN)
    return path


def test_a_change_touches_its_own_line_only(home: Path, path: Path) -> None:
    edit_config(home, "agent.max_turns", 7)
    assert path.read_text() == WRITTEN.replace("max_turns: 5", "max_turns: 7")


def test_a_new_key_goes_into_its_section(home: Path, path: Path) -> None:
    edit_config(home, "agent.api_max_retries", 1)
    edit_config(home, "delegation.max_spawn_depth", 2)
    text = path.read_text()
    assert "    max_turns: 5\n    api_max_retries: 1\n" in text
    assert text.endswith("approvals: {mode: off}\ndelegation:\n    max_spawn_depth: 2\n")
    assert "# for now" in text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model.default", "yes"),
        ("model.default", "off"),
        ("model.default", "1:30"),
        ("model.default", "0123"),
        ("model.default", "1_000"),
        ("model.default", "1e3"),
        ("model.default", "2026-01-01"),
        ("model.default", "null"),
        ("model.default", ""),
        ("model.default", "# no comment"),
        ("model.default", "two\nlines: here"),
        ("model.default", "ünïcode ☤ " * 30),
        ("model.extra_body", {"a": [1, 2.5, None, True, {"b": "c: d"}], "n": -3}),
        ("toolsets", ["terminal", "file"]),
        ("agent.max_turns", 10**6),
        ("approvals.timeout", 0.25),
        ("hooks_auto_accept", True),
        ("auxiliary.vision.timeout", 12.0),
        ("hooks.pre_tool_call", [{"command": "ls -l"}]),
        ('providers."my.host".base_url', "http://h"),
        ("plugins.entries.observability/nemo_relay.anything.goes", 1),
    ],
)
def test_what_is_written_is_what_is_read(home: Path, path: Path, key: str, value: Any) -> None:
    edit_config(home, key, value)
    node: Any = load_config(home).raw
    for part in split_key(key):
        node = node[part]
    assert node == value
    assert "# the good one" in path.read_text()


def test_the_first_edit_makes_a_private_file(home: Path) -> None:
    edit_config(home, "agent.max_turns", 7)
    assert config_path(home).read_text() == "agent:\n  max_turns: 7\n"
    assert stat.S_IMODE(config_path(home).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_mode_and_link_are_kept(home: Path, path: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to(real)
    edit_config(home, "agent.max_turns", 7)
    assert path.is_symlink()
    assert "max_turns: 7" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize("before", ["", "# only remarks\n", "# no end of line", "{}\n"])
def test_a_file_without_settings_keeps_its_remarks(home: Path, before: str) -> None:
    home.mkdir()
    config_path(home).write_text(before)
    edit_config(home, "agent.max_turns", 7)
    assert load_config(home).config.agent.max_turns == 7
    assert before.strip("{}\n") in config_path(home).read_text()


def test_the_spelling_of_the_file_is_kept(home: Path) -> None:
    home.mkdir()
    path = config_path(home)
    path.write_text("model: small\n")
    edit_config(home, "model.provider", "custom")
    assert load_config(home).raw == {"model": {"default": "small", "provider": "custom"}}
    path.write_text("model:\n  name: small\n  api_base: http://a\n")
    edit_config(home, "model.default", "large")
    edit_config(home, "model.base_url", "http://b")
    assert path.read_text() == "model:\n  name: large\n  api_base: http://b\n"


@pytest.mark.parametrize(
    ("key", "value", "part"),
    [
        ("agent.max_turns", "many", "agent.max_turns: found the text 'many'; allowed: a whole number, 1 or more"),
        ("agent.max_turns", 0, "allowed: a whole number, 1 or more"),
        ("approvals.mode", "never", "allowed: one of manual, off, smart"),
        ("agent", 5, "allowed: a mapping"),
        ("agent.max_turn", 5, "agent.max_turn is not a known setting; did you mean agent.max_turns?"),
        ("agnt.max_turns", 5, "agnt is not a known setting; did you mean agent?"),
        ("agent.max_turns.deeper", 5, "agent.max_turns: found the number 5; it cannot hold 'deeper'"),
        ("fallback_providers", [{"model": "m"}], "fallback_providers[0].provider: found nothing"),
        ("plugins.enabled.7", "x", "the list has no item 7"),
        ("", 5, "is not a key"),
        ("a..b", 5, "is not a key"),
    ],
)
def test_a_change_that_would_break_the_file_is_refused(home: Path, path: Path, key: str, value: Any, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        edit_config(home, key, value)
    assert part in str(caught.value)
    assert path.read_text() == WRITTEN


@pytest.mark.parametrize("broken", ["model: [\n", "a: 1\na: 2\n", "- list\n"])
def test_a_file_that_does_not_parse_is_left_alone(home: Path, path: Path, broken: str) -> None:
    path.write_text(broken)
    for attempt in (lambda: edit_config(home, "agent.max_turns", 1), lambda: unset_config(home, "agent.max_turns")):
        with pytest.raises(ConfigError):
            attempt()
    assert path.read_text() == broken


def test_mistakes_can_be_corrected_one_by_one(home: Path, path: Path) -> None:
    path.write_text("agent:\n  max_turns: many\n  api_max_retries: few\n")
    edit_config(home, "agent.max_turns", 5)
    assert unset_config(home, "agent.api_max_retries") is True
    assert load_config(home).config.agent.max_turns == 5


def test_unset(home: Path, path: Path) -> None:
    assert unset_config(home, "agent.max_turns") is True
    assert unset_config(home, "agent.max_turns") is False
    assert unset_config(home, "memory.provider") is False
    assert unset_config(home, "plugins.enabled[0]") is True
    config = load_config(home).config
    assert config.agent.max_turns == 90
    assert config.plugins.enabled == ["b"]


def test_lists_are_added_to_and_taken_from(home: Path, path: Path) -> None:
    assert edit_list(home, "plugins.enabled", add=["c", "c", "a"], remove=["b", "zzz"]) == ["a", "c"]
    assert edit_list(home, "plugins.disabled", add=["b"]) == ["b"]
    assert edit_list(home, "plugins.disabled", remove=["b"]) == []
    assert edit_list(home, "command_allowlist", remove=["x"]) == []
    assert edit_list(home, "toolsets", add=["web"]) == ["default", "web"]
    text = path.read_text()
    assert "- a     # first" in text
    assert "command_allowlist" not in text
    with pytest.raises(ConfigError, match=r"agent\.max_turns: found the number 5; allowed: a list"):
        edit_list(home, "agent.max_turns", add=["x"])


def test_two_processes_that_edit_at_once_both_get_their_way(home: Path, path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hermes.base.config.edit import edit_list;"
        "[edit_list(Path(sys.argv[1]), 'plugins.enabled', add=[f'{sys.argv[2]}{i}']) for i in range(8)]"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(home), name]) for name in "xyz"]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    expected = {"a", "b", *(f"{name}{i}" for name in "xyz" for i in range(8))}
    assert set(load_config(home).config.plugins.enabled) == expected
    assert "# My settings" in path.read_text()
    assert [file.name for file in home.iterdir() if file.name.endswith(".tmp")] == []


def test_a_file_that_cannot_be_replaced_is_unchanged(home: Path, path: Path) -> None:
    # A full disk and a missing permission end the same way: the operating system refuses the new file.
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = __import__("signal").signal(25, __import__("signal").SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, hard))
    try:
        with pytest.raises(ConfigError, match=r"cannot be written: File too large; the file is unchanged"):
            edit_config(home, "agent.max_turns", 7)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        __import__("signal").signal(25, previous)
    assert path.read_text() == WRITTEN
    assert [file.name for file in home.iterdir() if file.name.endswith(".tmp")] == []


def test_a_whole_new_text_is_refused_when_someone_else_was_quicker(home: Path, path: Path) -> None:
    edit_config(home, "agent.max_turns", 7)
    with pytest.raises(ConfigError, match="was changed by someone else meanwhile"):
        replace_config(home, WRITTEN, "model: x\n")
    assert "max_turns: 7" in path.read_text()
    replace_config(home, path.read_text(), "model: x\n")
    assert path.read_text() == "model: x\n"
