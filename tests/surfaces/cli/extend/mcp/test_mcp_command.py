"""``hermes mcp`` adds, lists, tests, configures and removes servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hermes.base.config import load_config
from hermes.surfaces.cli.main import main
from support.mcp_rig import FAULTY


@pytest.fixture(autouse=True)
def here(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workdir)


def test_a_server_is_added_listed_configured_tested_and_removed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = [sys.executable, "-S", str(FAULTY)]
    assert main(["mcp", "add", "f", "--env", "A=${PATH}", "--trust", "--", *line]) == 0
    added = capsys.readouterr().out
    assert "11 of 11 tools are offered" in added
    assert "toolset mcp-f" in added
    entry = load_config(home).config.mcp_servers["f"]
    assert entry.trust
    assert entry.env == {"A": "${PATH}"}
    assert main(["mcp", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["tools"] == 11
    assert main(["mcp", "configure", "f", "--exclude", "d*", "--no-trust", "--disable"]) == 0
    shown = capsys.readouterr().out
    assert "9 of 11 tools" in shown
    assert "disabled" in shown
    assert main(["mcp", "list"]) == 0
    assert "off" in capsys.readouterr().out
    assert main(["mcp", "configure", "f", "--all", "--enable"]) == 0
    assert "11 of 11 tools" in capsys.readouterr().out
    assert main(["mcp", "test", "f"]) == 0
    assert "It answered after" in capsys.readouterr().out
    assert main(["mcp", "remove", "f"]) == 0
    assert load_config(home).config.mcp_servers == {}
    assert not list((home / "cache" / "mcp").iterdir())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["add", "x"], "neither command nor url"),
        (["add", "x", "--url", "example.org"], "http://"),
        (["add", "x", "--url", "http://h/mcp", "--", "run"], "command and url"),
        (["add", "x", "--command", "a", "--", "b"], "given twice"),
        (["add", "x", "--env", "A", "--", "b"], "NAME=VALUE"),
        (["add", "x", "--", "no-such-program-here"], "no such program"),
        (["test", "nothing"], "there is no MCP server 'nothing'"),
        (["remove", "nothing"], "hermes mcp add"),
        (["configure", "nothing"], "there is no MCP server"),
    ],
)
def test_mistakes_are_named_and_nothing_is_saved(
    line: list[str], words: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", *line]) == 1
    assert words in capsys.readouterr().err
    assert not (home / "config.yaml").exists()


def test_a_server_that_dies_is_not_added_unless_it_is_not_tried(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["--", sys.executable, "-S", str(FAULTY), "dies"]
    assert main(["mcp", "add", "f", *line]) == 1
    assert "fatal: no database" in capsys.readouterr().err
    assert load_config(home).config.mcp_servers == {}
    assert main(["mcp", "add", "f", "--no-test", *line]) == 0
    assert main(["mcp", "list"]) == 0
    assert "not seen yet" in capsys.readouterr().out
    assert main(["mcp", "add", "f", *line]) == 1
    assert "already" in capsys.readouterr().err


def test_a_program_that_ends_at_once_is_reported_once_with_its_last_words(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "add", "f", "--", "sh", "-c", "exec 0<&-; echo no module named f >&2; exit 3"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["Error: the MCP server f cannot be used: it ended; exit code 3; its last words: no module named f"]


def test_without_an_action_the_servers_are_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp"]) == 0
    assert "hermes mcp add NAME -- COMMAND" in capsys.readouterr().out
