"""What bash really runs is among what the reader says it would run; the programs in these scripts do not exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from hermes.policy.listing import commands_in
from policy.corpus import judge
from policy.scripts import PROGRAMS, ScriptWriter

BASH = Path("/bin/bash")
#: Called by bash for a program it cannot find: notes the words and reports success or failure by turns.
NOTE_CALLS = (
    'command_not_found_handle() { local s; printf -v s "%s\\x03" "$@"; printf "%s\\x02" "$s" >> "$NOTES"; '
    "return $((RANDOM % 2)); }\n"
)
SCRIPTS = 100


@pytest.mark.slow
@pytest.mark.skipif(not BASH.exists(), reason="needs bash")
@pytest.mark.parametrize("seed", range(2))
def test_no_program_that_bash_runs_is_overlooked(seed: int, tmp_path: Path) -> None:
    writer = ScriptWriter(seed)
    compared = 0
    for number in range(SCRIPTS):
        script = writer.script()
        ran = run_in_bash(script, tmp_path / f"notes-{number}")
        if not ran or "unreadable" in {finding.rule for finding in judge(script).findings}:
            continue
        compared += 1
        patterns = [_pattern(command) for command in commands_in(script, cwd=tmp_path)]
        for call in ran:
            assert any(pattern.fullmatch(call) for pattern in patterns), f"{call!r} overlooked in {script!r}"
    assert compared > SCRIPTS / 2


def run_in_bash(script: str, notes: Path) -> list[str]:
    """The calls of programs that do not exist, each as one text."""
    if subprocess.run([BASH, "-n", "-c", script], capture_output=True).returncode:
        return []
    notes.touch()
    environment = {"PATH": "/nonexistent", "NOTES": str(notes)}
    # Commands in the background are waited for: they hold the pipe open.
    subprocess.run(
        [BASH, "-c", NOTE_CALLS + script],
        env=environment,
        cwd=notes.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=20,
    )
    calls = [call.split("\x03")[:-1] for call in notes.read_text(encoding="utf-8").split("\x02")[:-1]]
    return [" ".join(words) for words in calls if words and words[0] in PROGRAMS]


def _pattern(command: str) -> re.Pattern[str]:
    """A listed command with its unknown parts open: each may be nothing, and then take its blank along."""
    return re.compile(re.escape(command).replace(r"\ \?", r"(?:\ .*)?").replace(r"\?", ".*"), re.DOTALL)
