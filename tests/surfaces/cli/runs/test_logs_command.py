"""``hermes logs``: the end of the log, filtered, and followed across rotation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from hermes.base.log import LogFile, log_path, rotated
from hermes.surfaces.cli.main import main
from hermes.surfaces.cli.runs.logs import Follower


def line(message: str, level: str = "INFO", session: str = "-") -> str:
    return f"2026-01-01T00:00:00.000+00:00 {level} [{session}] hermes.x: {message}"


def write(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(f"{text}\n" for text in lines)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["logs", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_no_log_yet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"the log is empty; it will be {log_path(home)}\n"


def test_the_last_lines(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(log_path(home), *(line(str(number)) for number in range(60)))
    assert shown(capsys) == [line(str(number)) for number in range(10, 60)]
    assert shown(capsys, "-n", "2") == [line("58"), line("59")]
    assert shown(capsys, "--lines", "0") == []


def test_older_files_fill_up(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(log_path(home), line("new"))
    write(rotated(log_path(home), 1), line("old 1"), line("old 2"))
    write(rotated(log_path(home), 2), line("older"))
    assert shown(capsys, "-n", "2") == [line("old 2"), line("new")]
    assert shown(capsys) == [line("older"), line("old 1"), line("old 2"), line("new")]


def test_filters(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line("a", "DEBUG", "s1"), line("b", "WARNING", "s1"), line("c", "ERROR", "s2"), "stray"]
    write(log_path(home), *lines)
    assert shown(capsys, "--level", "warning") == lines[1:3]
    assert shown(capsys, "--session", "s1") == lines[:2]
    assert shown(capsys, "--session", "s1", "--level", "ERROR") == []
    assert shown(capsys, "-n", "1", "--session", "s1") == [lines[1]]
    assert shown(capsys) == lines


def test_lines_of_a_turn_belong_to_its_session(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        line("a", session="s1"),
        line("b", session="s1:t:1"),
        line("c", session="s1:t:2"),
        line("d", session="s11"),
    ]
    write(log_path(home), *lines)
    assert shown(capsys, "--session", "s1") == lines[:3]
    assert shown(capsys, "--turn", "s1:t:2") == [lines[2]]


@pytest.mark.parametrize("arguments", [["-n", "-1"], ["-n", "x"], ["--level", "LOUD"]])
def test_bad_options_say_what_is_allowed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", *arguments]) == 2
    assert "; allowed: " in capsys.readouterr().err


def test_bytes_that_are_no_text_do_no_harm(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_path(home).parent.mkdir(parents=True)
    log_path(home).write_bytes(b"\xff\xfe bad bytes here now\n")
    assert shown(capsys) == ["\ufffd\ufffd bad bytes here now"]


@pytest.fixture
def follow(tmp_path: Path) -> Generator[tuple[Path, Callable[[], list[str]]]]:
    path = tmp_path / "agent.log"
    follower = Follower(path)
    yield path, lambda: list(follower.new_lines())
    follower.close()


def test_following_gives_each_whole_line_once(follow: tuple[Path, Callable[[], list[str]]]) -> None:
    path, new_lines = follow
    assert new_lines() == []
    path.write_text("one\nhal")
    assert new_lines() == ["one"]
    assert new_lines() == []
    write(path, "f")
    assert new_lines() == ["half"]


def test_following_across_several_rotations_misses_nothing(follow: tuple[Path, Callable[[], list[str]]]) -> None:
    path, new_lines = follow
    log = LogFile(path, max_bytes=30, backups=3)
    seen: list[str] = []
    written: list[str] = []
    for number in range(40):
        text = f"line {number:04d}"
        log.write(f"{text}\n".encode())
        written.append(text)
        # Two lines fit into a file, so up to three rotations lie between two looks.
        if number % 6 == 0:
            seen += new_lines()
    log.close()
    seen += new_lines()
    assert seen == written


def test_follow_prints_what_is_added(home: Path) -> None:
    path = log_path(home)
    write(path, line("first"))
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes", "logs", "--follow", "--level", "INFO"],
        stdout=subprocess.PIPE,
        env=os.environ,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().rstrip() == line("first")
        write(path, line("second"), line("unwanted", "DEBUG"))
        assert process.stdout.readline().rstrip() == line("second")
        path.rename(rotated(path, 1))
        write(path, line("third"))
        assert process.stdout.readline().rstrip() == line("third")
    finally:
        process.terminate()
        process.communicate(timeout=60)
