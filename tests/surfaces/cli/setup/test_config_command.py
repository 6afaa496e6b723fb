"""``hermes config``: what it shows, what it changes, and what it refuses."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.base.config import config_path, load_config, load_env_file
from hermes.surfaces.cli.main import main

WRITTEN = """\
# mine
model:
  default: small  # for now
  api_key: sk-abcdefghijklmnopqrst
  base_url: https://user:pa55word@host/v1
  extra_headers: {X-Auth-Token: very-secret, X-Team: blue}
agent:
  max_turns: 7
plugins:
  entries: {p: {password: very-secret, level: 3}}
"""


@pytest.fixture
def path(home: Path) -> Path:
    home.mkdir()
    path = config_path(home)
    path.write_text(WRITTEN)
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["config", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["config", *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("Error: ")
    return captured.err


def test_show_tells_the_file_every_value_and_which_are_defaults(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "show")
    assert lines[0] == f"# {path}"
    assert 'model.default: "small"' in lines
    assert "agent.max_turns: 7" in lines
    assert "agent.api_max_retries: 3  # default" in lines
    assert "fallback_providers: []  # default" in lines
    assert 'plugins.entries: {"p":{"password":"<redacted>","level":3}}' in lines
    assert 'model.extra_headers: {"X-Auth-Token":"<redacted>","X-Team":"blue"}' in lines


@pytest.mark.parametrize("form", [[], ["--json"], ["model"], ["model.api_key"]])
def test_show_masks_secrets(path: Path, capsys: pytest.CaptureFixture[str], form: list[str]) -> None:
    text = "\n".join(shown(capsys, "show", *form))
    assert "<redacted>" in text
    for secret in ("sk-abc", "pa55word", "very-secret"):
        assert secret not in text


def test_an_empty_secret_is_shown_as_empty(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "show", "model.api_key") == [
        f"# {config_path(home)} (no such file; all values are defaults)",
        'model.api_key: ""  # default',
    ]


def test_show_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads("\n".join(shown(capsys, "show", "--json", "agent")))
    assert document["path"] == str(path)
    assert document["exists"] is True
    assert document["values"]["agent.max_turns"] == 7
    assert "agent.max_turns" not in document["defaults"]
    assert "agent.api_max_retries" in document["defaults"]
    assert not [key for key in document["values"] if not key.startswith("agent.")]


def test_show_lists_named_items_under_the_names_they_are_written_with(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home.mkdir()
    config_path(home).write_text(
        "auxiliary: {vision: {timeout: 9}}\nhooks: {pre_tool_call: [{command: ls}]}\n"
        "providers: {mine: {base_url: http://h}}\nplatform_toolsets: {cli: [web]}\n"
    )
    lines = shown(capsys, "show")
    assert "auxiliary.vision.timeout: 9.0" in lines
    assert 'hooks.pre_tool_call[0].command: "ls"' in lines
    assert 'providers.mine.base_url: "http://h"' in lines
    assert "providers.mine.enabled: true  # default" in lines
    assert 'platform_toolsets: {"cli":["web"]}' in lines


def test_show_prints_warnings_beside_not_among_the_values(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("agent: {max_turn: 5}\n")
    (path.parent / ".env").write_text("KEY=1\n")
    (path.parent / ".env").chmod(0o644)
    assert main(["config", "show", "--json"]) == 0
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert "Warning: " in captured.err
    assert "did you mean agent.max_turns?" in captured.err
    assert "chmod 600" in captured.err


def test_show_reads_references_from_the_env_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("model: {base_url: 'http://${PLACE}/v1'}\n")
    env = path.parent / ".env"
    env.write_text("PLACE=there\n")
    env.chmod(0o600)
    assert shown(capsys, "show", "model.base_url")[1] == 'model.base_url: "http://there/v1"'


def test_show_of_an_unknown_key_suggests_one(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "agent.max_turn is not a known setting; did you mean agent.max_turns?" in refused(
        capsys, "show", "agent.max_turn"
    )


def test_a_broken_file_is_told_in_words(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_text("agent: {max_turns: [}\n")
    assert f"Error: {path}, line 1, column" in refused(capsys, "show")


def test_path(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "path") == [str(home / "config.yaml")]


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("agent.max_turns", "12", 12),
        ("model.default", "gpt-5", "gpt-5"),
        ("model.default", "", None),
        ("toolsets", "[terminal, file]", ["terminal", "file"]),
        ("hooks_auto_accept", "true", True),
        ("approvals.mode", "off", "off"),
    ],
)
def test_set_reads_the_value_as_yaml(
    home: Path, path: Path, capsys: pytest.CaptureFixture[str], key: str, text: str, value: object
) -> None:
    assert shown(capsys, "set", key, text) == [f"{key} is set in {path}"]
    node = load_config(home).raw
    for part in key.split("."):
        node = node[part]
    assert node == value
    assert "# mine" in path.read_text()


def test_set_refuses_a_wrong_type_and_a_typo(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = "Error: agent.max_turns: found the text 'many'; allowed: a whole number, 1 or more"
    assert expected in refused(capsys, "set", "agent.max_turns", "many")
    assert "did you mean agent.max_turns?" in refused(capsys, "set", "agent.max_turn", "5")
    assert "Error: the value, line" in refused(capsys, "set", "toolsets", "[a")
    assert path.read_text() == WRITTEN


def test_unset(home: Path, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "unset", "agent.max_turns") == [f"agent.max_turns is removed from {path}; its default applies"]
    assert load_config(home).config.agent.max_turns == 90
    assert "agent.max_turns is not set in" in refused(capsys, "unset", "agent.max_turns")


TOKEN = "tok-0123456789abcdef"


def test_a_name_in_capitals_is_a_variable_in_the_env_file(
    home: Path, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLACK_BOT_TOKEN", raising=False)
    env = home / ".env"
    env.write_text("# keys\nOTHER=1\nSLACK_BOT_TOKEN=old\n")
    env.chmod(0o644)
    assert shown(capsys, "set", "SLACK_BOT_TOKEN", TOKEN) == [f"SLACK_BOT_TOKEN is set in {env}"]
    assert env.read_text() == f"# keys\nOTHER=1\nSLACK_BOT_TOKEN='{TOKEN}'\n"
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    assert shown(capsys, "get", "SLACK_BOT_TOKEN") == [f"SLACK_BOT_TOKEN is set in {env}"]
    assert shown(capsys, "unset", "SLACK_BOT_TOKEN") == [f"SLACK_BOT_TOKEN is removed from {env}"]
    assert env.read_text() == "# keys\nOTHER=1\n"
    assert "is not set; set it with: hermes config set SLACK_BOT_TOKEN" in refused(capsys, "get", "SLACK_BOT_TOKEN")
    assert f"SLACK_BOT_TOKEN is not set in {env}" in refused(capsys, "unset", "SLACK_BOT_TOKEN")
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    assert shown(capsys, "get", "SLACK_BOT_TOKEN") == ["SLACK_BOT_TOKEN is set in the environment of this shell"]
    assert path.read_text() == WRITTEN


def test_without_a_value_a_variable_is_read_from_standard_input(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))
    assert shown(capsys, "set", "A1_KEY") == [f"A1_KEY is set in {home / '.env'}"]
    assert load_env_file(home) == {"A1_KEY": TOKEN}
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert "no value was given for A1_KEY; nothing was changed" in refused(capsys, "set", "A1_KEY")
    assert load_env_file(home) == {"A1_KEY": TOKEN}


def test_what_cannot_be_set_as_a_variable_is_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "HERMES_HOME cannot be set in" in refused(capsys, "set", "HERMES_HOME", "/elsewhere")
    assert "no value was given for agent.max_turns" in refused(capsys, "set", "agent.max_turns")
    assert "some_token is not a known setting" in refused(capsys, "set", "some_token", TOKEN)
    assert not (home / ".env").exists()


def test_on_a_terminal_a_variable_is_typed_without_being_shown(home: Path) -> None:
    main_end, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes", "config", "set", "SLACK_BOT_TOKEN"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,  # without a terminal of its own, it asks on stderr
    )
    os.close(terminal)
    seen = b""
    while b"(not shown)" not in seen:
        seen += os.read(main_end, 1000)
    os.write(main_end, f"{TOKEN}\n".encode())
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(main_end, 1000):
            seen += data
    os.close(main_end)
    assert process.wait(60) == 0, seen
    assert b"SLACK_BOT_TOKEN is set in" in seen
    assert TOKEN.encode() not in seen
    assert load_env_file(home) == {"SLACK_BOT_TOKEN": TOKEN}


@pytest.mark.parametrize("key", ["SLACK_BOT_TOKEN", "gateway.max_attempts", "agent.max_turns"])
def test_a_gateway_that_runs_with_the_old_value_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    home.mkdir()
    status = {"pid": os.getpid(), "started_at": 1.0, "written_at": 1.0}
    (home / "gateway.json").write_text(json.dumps(status))
    assert main(["config", "set", key, "7"]) == 0
    says_so = f"The gateway that runs (process {os.getpid()}) uses it after a restart." in capsys.readouterr().err
    assert says_so == (key != "agent.max_turns")


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A real program in the place of the editor; ``$1`` is the file."""
    program = tmp_path / "editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("VISUAL", f"{program} --option")
    monkeypatch.setenv("EDITOR", "false")


def kept_copies(home: Path) -> list[Path]:
    return sorted(home.glob("config.edit-*"))


def test_edit_replaces_the_file(
    home: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    editor(tmp_path, monkeypatch, 'sed -i.bak s/small/large/ "$2"; rm -f "$2.bak"')
    assert shown(capsys, "edit") == [f"{path} is saved"]
    assert path.read_text() == WRITTEN.replace("small", "large")
    assert kept_copies(home) == []


def test_edit_makes_the_first_file(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    editor(tmp_path, monkeypatch, 'echo "model: small" >> "$2"; ls -l "$2" > "$2.mode"')
    shown(capsys, "edit")
    assert load_config(home).config.model.default == "small"
    assert stat.S_IMODE(config_path(home).stat().st_mode) == 0o600
    (mode,) = home.glob("*.mode")
    assert mode.read_text().startswith("-rw-------")


def test_edit_without_a_change(
    home: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    editor(tmp_path, monkeypatch, "true")
    assert shown(capsys, "edit") == [f"{path} is unchanged"]
    assert kept_copies(home) == []


def test_a_bad_edit_is_kept_aside(
    home: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    editor(tmp_path, monkeypatch, 'echo "agent: {max_turns: many}" > "$2"')
    assert main(["config", "edit"]) == 1
    error = capsys.readouterr().err
    (copy,) = kept_copies(home)
    assert "agent.max_turns: found the text 'many'; allowed: a whole number, 1 or more (line 1)" in error
    assert f"{path} is unchanged; your edit is kept in {copy}" in error
    assert path.read_text() == WRITTEN
    assert copy.read_text() == "agent: {max_turns: many}\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_an_edit_does_not_undo_what_someone_else_did_meanwhile(
    home: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    editor(tmp_path, monkeypatch, f'echo "model: mine" > "$2"; echo "model: theirs" > {path}')
    assert main(["config", "edit"]) == 1
    assert "was changed by someone else meanwhile" in capsys.readouterr().err
    assert path.read_text() == "model: theirs\n"
    assert [copy.read_text() for copy in kept_copies(home)] == ["model: mine\n"]


def test_an_editor_that_fails_changes_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    editor(tmp_path, monkeypatch, 'echo broken > "$2"; exit 3')
    assert "ended with code 3; nothing was changed" in refused(capsys, "edit")
    monkeypatch.setenv("VISUAL", "/nonexistent/editor")
    assert "cannot start the editor '/nonexistent/editor'" in refused(capsys, "edit")
    assert path.read_text() == WRITTEN


def test_on_a_terminal_a_bad_edit_can_be_corrected(path: Path, tmp_path: Path) -> None:
    program = tmp_path / "editor"
    program.write_text(
        '#!/bin/sh\nif grep -q BAD "$1"; then echo "model: good" > "$1"; else echo "BAD: [" > "$1"; fi\n'
    )
    program.chmod(0o755)
    main_end, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes", "config", "edit"],
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "EDITOR": str(program), "VISUAL": ""},
        text=True,
    )
    os.write(main_end, b"y\n")
    output, error = process.communicate(timeout=60)
    os.close(main_end)
    os.close(terminal)
    assert process.returncode == 0, error
    assert "Edit again? [Y/n]" in output
    assert path.read_text() == "model: good\n"
