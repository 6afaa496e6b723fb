"""Files that one process writes at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hermes.trace.claims import claim, give_back

HOLDING = """
import pathlib, sys
from hermes.trace.claims import claim
print(claim(pathlib.Path(sys.argv[1]), sys.argv[2]).name, flush=True)
sys.stdin.read()
"""


def hold(folder: Path, wanted: str = "events.jsonl") -> tuple[subprocess.Popen[str], str]:
    """Another process with a file, until its input ends, and the name of that."""
    command = [sys.executable, "-c", HOLDING, str(folder), wanted]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_each_process_has_its_own_and_gives_it_back_when_it_ends(tmp_path: Path) -> None:
    first, name = hold(tmp_path)
    second, other = hold(tmp_path)
    assert (name, other) == ("events.jsonl", "events-2.jsonl")
    mine = claim(tmp_path, "events.jsonl")
    assert mine == tmp_path / "events-3.jsonl" and mine.stat().st_mode & 0o777 == 0o600
    give_back(mine)
    first.kill()
    for process in (first, second):
        process.communicate()
    mine = claim(tmp_path, "events.jsonl")
    assert mine.name == "events.jsonl"
    give_back(mine)


def test_writers_of_one_process_share(tmp_path: Path) -> None:
    assert claim(tmp_path / "new", "e") == claim(tmp_path / "new", "e") == tmp_path / "new" / "e"
    give_back(tmp_path / "new" / "e")
    process, name = hold(tmp_path / "new", "e")
    assert name == "e-2"
    process.communicate()
    give_back(tmp_path / "new" / "e")


def test_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a symbolic link"):
        claim(tmp_path, "events.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["events.jsonl"]
