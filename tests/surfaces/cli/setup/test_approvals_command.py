"""``hermes approvals``: what is approved, taken back, and explained without running anything."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hermes.base.config import load_config
from hermes.journal.questions import QuestionRow, Questions
from hermes.journal.runner import FileRunner
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.surfaces.cli.main import main
from journal.kit import start_turn

CONFIG = """\
# what I allow
command_allowlist:
  - recursive-delete  # old notes
  - "git push --force*"
approvals:
  deny: ["docker *"]
  tools:
    read_file: ask
"""

ROW = QuestionRow("appr_1", "s1", "t1", "tool:1.0", "terminal", "d", "rm -rf x", ("recursive-delete",), "why", "cli")


@pytest.fixture
def config(home: Path) -> Path:
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG)
    return home / "config.yaml"


@pytest.fixture
def rows(home: Path) -> Generator[Questions]:
    """A journal in which one call is approved for its session, one waits, and one was denied."""
    store, runner = SqliteStore(home / "state.db"), FileRunner(home / "runners")
    start_turn(store, runner, "s1", turn_id="t1")
    rows = Questions(store)
    rows.ask(ROW)
    rows.answer("appr_1", "session")
    rows.ask(replace(ROW, id="appr_2", key="tool:2.0", subject="git push --force\x1b[2J", rules=("git-force-push",)))
    rows.ask(
        replace(ROW, id="appr_3", key="tool:3.0", subject="curl -H 'Authorization: Bearer abcdefghijklmnop12345678'")
    )
    rows.answer("appr_3", "deny", "no")
    yield rows
    store.close()
    runner.close()


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["approvals", *arguments]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(shown(capsys, *arguments, "--json"))


# -- list -----------------------------------------------------------------------------------------------------------


def test_nothing_to_list(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == "No approvals and no questions yet.\n"
    assert document(capsys, "list") == {"always": [], "session": [], "pending": [], "recent": []}
    assert not (home / "state.db").exists()


@pytest.mark.usefixtures("config", "rows")
def test_the_list_has_what_counts_what_waits_and_what_was_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "list")
    good, session, waiting, answered = text.split("\n\n")
    assert good.splitlines() == [
        f"Always allowed (command_allowlist in {home / 'config.yaml'}):",
        "  recursive-delete",
        "  git push --force*",
    ]
    assert "appr_1" in session and "session s1  recursive-delete" in session
    assert "appr_2" in waiting and "git push --force" in waiting and "\x1b" not in waiting
    assert "appr_3" in answered and "deny" in answered and "abcdefghijklmnop" not in answered


@pytest.mark.usefixtures("config", "rows")
def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "list")
    assert found["always"] == ["recursive-delete", "git push --force*"]
    assert [row["id"] for row in found["session"]] == ["appr_1"]
    assert [(row["id"], row["state"]) for row in found["pending"]] == [("appr_2", "pending")]
    assert [(row["id"], row["choice"]) for row in found["recent"]] == [("appr_3", "deny"), ("appr_1", "session")]
    assert "abcdefghijklmnop" not in str(found)


# -- revoke ---------------------------------------------------------------------------------------------------------


def test_a_rule_is_taken_back_everywhere(config: Path, rows: Questions, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "revoke", "recursive-delete")
    assert "recursive-delete is no longer always allowed" in text and "appr_1 revoked" in text
    assert rows.grants() == []
    assert config.read_text().startswith("# what I allow\n") and "deny" in config.read_text()
    assert load_config(config.parent).config.command_allowlist == ["git push --force*"]


def test_one_approval_is_taken_back_by_its_id(
    config: Path, rows: Questions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "appr_1 revoked: recursive-delete in session s1" in shown(capsys, "revoke", "appr_1")
    assert rows.grants() == [] and [row.id for row in rows.pending()] == ["appr_2"]
    assert config.read_text() == CONFIG


@pytest.mark.usefixtures("config")
def test_a_session_loses_everything_by_the_start_of_its_id(rows: Questions, capsys: pytest.CaptureFixture[str]) -> None:
    shown(capsys, "revoke", "--session", "s")
    assert rows.grants() == [] and rows.pending() == []


def test_all_of_it(config: Path, rows: Questions, capsys: pytest.CaptureFixture[str]) -> None:
    shown(capsys, "revoke", "--all")
    assert rows.grants() == [] and load_config(config.parent).config.command_allowlist == []


@pytest.mark.usefixtures("config", "rows")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["unknown"], "no such approval; 'hermes approvals list'"),
        ([""], "empty name"),
        (["--session", "s9"], "no session 's9'"),
        (["--session", " "], "empty name"),
    ],
)
def test_what_cannot_be_revoked_says_so(
    config: Path, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint in shown(capsys, "revoke", *arguments, code=1)
    assert config.read_text() == CONFIG


def test_revoking_needs_one_thing_to_revoke(capsys: pytest.CaptureFixture[str]) -> None:
    assert "required" in shown(capsys, "revoke", code=2)
    assert "not allowed" in shown(capsys, "revoke", "x", "--all", code=2)


# -- explain --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("command", "decision", "rules", "outcome", "because"),
    [
        ("ls", "allow", [], "run", []),
        ("rm -rf notes", "ask", ["recursive-delete"], "run", ["command_allowlist has recursive-delete"]),
        ("git push --force origin", "ask", ["git-force-push"], "run", ["command_allowlist has git push --force*"]),
        ("git reset --hard", "ask", ["git-reset-hard"], "ask", []),
        ("mkfs.ext4 ./nothing", "hardline", ["format-disk"], "refuse", []),
        ("echo x; sudo docker ps", "allow", [], "refuse", ["approvals.deny has 'docker *'"]),
    ],
)
def test_a_command_is_explained_and_not_run(
    capsys: pytest.CaptureFixture[str],
    workdir: Path,
    command: str,
    decision: str,
    rules: list[str],
    outcome: str,
    because: list[str],
) -> None:
    line = f"touch ran; {command}"
    found = document(capsys, "explain", line, "--cwd", str(workdir))
    assert (found["command"], found["cwd"], found["mode"]) == (line, str(workdir), "ask-risky")
    assert (found["decision"], found["outcome"], found["because"]) == (decision, outcome, because)
    assert [finding["rule"] for finding in found["findings"]] == rules
    assert all(finding["part"] in line and finding["description"] for finding in found["findings"])
    assert list(workdir.iterdir()) == []


def test_an_explanation_for_a_person(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "explain", "make && rm -rf notes") == (
        "ask: needs approval\n"
        "  recursive-delete: deletes a directory tree\n"
        "    rm -rf notes\n"
        "Needs approval: recursive-delete\n"
    )
    assert shown(capsys, "explain", "ls").startswith("allow: no rule matches\nRuns")


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ("approvals:\n  mode: 'off'\n", "Runs without asking.\n  approvals.permission_mode is yolo\n"),
        ("approvals:\n  mode: smart\n", "recursive-delete; the auxiliary model is asked first\n"),
        ("approvals:\n  tools: {terminal: deny}\n", "Is blocked.\n  approvals.tools denies terminal\n"),
        ("approvals:\n  tools: {'*': allow}\n", "Runs without asking.\n  approvals.tools allows terminal\n"),
        ("approvals:\n  tools: {terminal: ask}\n", "tool:terminal, recursive-delete\n"),
    ],
)
def test_settings_show_in_the_explanation(
    home: Path, capsys: pytest.CaptureFixture[str], settings: str, end: str
) -> None:
    home.mkdir()
    (home / "config.yaml").write_text(settings)
    assert shown(capsys, "explain", "rm -rf notes").endswith(end)


def test_where_it_would_run_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "explain", "rm -rf etc", "--cwd", "/")["decision"] == "hardline"
    assert document(capsys, "explain", "rm -rf etc", "--cwd", "/srv/app")["decision"] == "ask"
