"""The prompt's history: a real file, shared by processes, that keeps no secret."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.base.sanitize import Redactor
from hermes.surfaces.cli.repl.prompt.history import PromptHistory

SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

WRITER = """
import sys
from pathlib import Path
from hermes.surfaces.cli.repl.prompt.history import PromptHistory
from hermes.base.sanitize import Redactor
path, name, count, most = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
history = PromptHistory(path, Redactor(), most=most)
sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
for number in range(count):
    history.append_string(f"{name} {number}\\nsecond line " + "x" * (number % 50))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new-home" / "history"


def open_history(path: Path, most: int = 10_000) -> PromptHistory:
    return PromptHistory(path, Redactor(), most=most)


def entries(path: Path, most: int = 10_000) -> list[str]:
    """What a new prompt offers, the oldest first."""
    return [*open_history(path, most).load_history_strings()][::-1]


def test_entries_come_back_in_the_next_prompt(path: Path) -> None:
    history = open_history(path)
    for entry in ("first", "two\nlines\n\tand a tab", 'quotes " and \\', "Grüße 中文 \u2028", "/help"):
        history.append_string(entry)

    async def offered() -> list[str]:
        return [entry async for entry in open_history(path).load()]

    newest_first = ["/help", "Grüße 中文 \u2028", 'quotes " and \\', "two\nlines\n\tand a tab", "first"]
    assert asyncio.run(offered()) == newest_first
    assert path.stat().st_mode & 0o777 == 0o600


def test_some_entries_are_not_kept(path: Path) -> None:
    history = open_history(path)
    for entry in (" private", "same", "same", "", "   ", "\n", "x" * 40_000, "last"):
        history.append_string(entry)
    assert entries(path) == ["same", "last"]
    assert " private" not in history.get_strings()
    assert "x" * 40_000 in history.get_strings()  # until the program ends


def test_secrets_are_masked_before_they_are_kept(path: Path) -> None:
    history = PromptHistory(path, Redactor(("correct-horse-battery",)))
    history.append_string(f"use {SECRET} and correct-horse-battery")
    assert entries(path) == ["use <redacted> and <redacted>"]
    assert history.get_strings() == ["use <redacted> and <redacted>"]


def test_a_file_that_others_could_read_is_closed_to_them(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('"old"\n')
    path.chmod(0o644)
    open_history(path).append_string("new")
    assert entries(path) == ["old", "new"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_oldest_entries_go_when_the_file_is_full(path: Path) -> None:
    history = open_history(path, most=10)
    for number in range(25):
        history.append_string(f"entry {number}")
        assert len(path.read_bytes().splitlines()) == min(number + 1, 10)
    assert entries(path) == [f"entry {number}" for number in range(15, 25)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["history"]


def test_ten_thousand_entries_are_the_most(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("".join(f'"entry {number}"\n' for number in range(12_000)))
    history = PromptHistory(path, Redactor())
    assert len(list(history.load_history_strings())) == 10_000
    history.append_string("newest")
    kept = entries(path)
    assert len(path.read_bytes().splitlines()) == len(kept) == 10_000
    assert (kept[0], kept[-1]) == ("entry 2001", "newest")


def test_lines_that_are_no_entries_are_passed_over(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'"good"\n\xff\xfe\n{"a": 1}\n\n"cut of')
    assert entries(path) == ["good"]
    open_history(path).append_string("next")
    assert entries(path) == ["good", "next"]


@pytest.mark.parametrize("most", [10_000, 60])
def test_two_processes_write_at_once(path: Path, most: int) -> None:
    count = 100
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, str(count), str(most)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.communicate("go\n", timeout=60)
        assert writer.returncode == 0
    kept = entries(path, most)
    assert len(kept) == len(path.read_bytes().splitlines()) == min(2 * count, most)
    for name in ("a", "b"):
        numbers = [int(entry.split()[1]) for entry in kept if entry.startswith(name)]
        # Each writer's newest entries, whole and in order.
        assert numbers == list(range(count - len(numbers), count))


def test_a_file_that_cannot_be_used_costs_the_history_only(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.mkdir(parents=True)
    history = open_history(path)
    with caplog.at_level(logging.WARNING, "hermes.surfaces.cli.repl"):
        assert list(history.load_history_strings()) == []
        history.append_string("still")
        history.append_string("works")
    assert history.get_strings() == ["still", "works"]
    assert len(caplog.records) == 1 and "prompt history" in caplog.text


def test_a_link_to_a_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    path.parent.mkdir()
    elsewhere = tmp_path / "dotfiles"
    path.symlink_to(elsewhere)
    history = open_history(path, most=2)
    for entry in ("a", "b", "c"):
        history.append_string(entry)
    assert path.is_symlink() and entries(elsewhere) == ["b", "c"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50)
@given(st.lists(st.text(min_size=1, max_size=20), max_size=12))
def test_whatever_was_typed_comes_back(path: Path, typed: list[str]) -> None:
    if path.exists():
        os.truncate(path, 0)
    history = open_history(path)
    for entry in typed:
        history.append_string(entry)
    assert entries(path) == history.get_strings()
    assert len(history.get_strings()) <= len(typed)
