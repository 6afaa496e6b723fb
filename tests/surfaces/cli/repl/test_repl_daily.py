"""A day at the prompt, on a real pseudo-terminal: files that are named, failures, long edits, project instructions."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, failure, text, tool_call
from support import repl_terminal, write_config
from support.repl_terminal import CTRL_D, ENTER, ReplTerminal

CTRL_Z = "\x1a"


def test_files_failures_long_edits_and_retries_are_seen(home: Path, workdir: Path) -> None:
    (workdir / "notes.txt").write_text("Water the plants.\n")
    (workdir / "AGENTS.md").write_text("Answer in French.\n")
    (workdir / "long.txt").write_text("".join(f"old {number}\n" for number in range(40)))
    long_text = "".join(f"{'old' if number % 2 else 'new'} {number}\n" for number in range(40))
    script = [
        text("Arrosez."),
        tool_call("terminal", {"command": "echo whoops; exit 3"}),
        tool_call("write_file", {"path": "long.txt", "content": long_text}),
        failure(429, headers={"retry-after": "1"}),
        text("All done."),
        text("Written."),
    ]
    display = "display:\n  theme: dark\n  notify: osc9\n  notify_after: 0\n"
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, display)
        config = (home / "config.yaml").read_text().replace("api_max_retries: 0", "api_max_retries: 1")
        (home / "config.yaml").write_text(config)
        with ReplTerminal(home, workdir, rows=50) as terminal:
            assert "project instructions: AGENTS.md" in terminal.text
            terminal.send("what do @notes.txt and @note.txt say?")
            terminal.wait_for("@note.txt: no such file or folder")
            terminal.wait_until(lambda: terminal.text.count("> what do @notes.txt and @note.txt say?") == 2, "the text")
            terminal.type("\x15what does @notes.txt say?" + ENTER)
            terminal.wait_for("Added notes.txt.")
            terminal.wait_for("Arrosez.")
            terminal.wait_until_idle()
            assert b"\x1b]9;" in terminal.raw, "the desktop is told"

            terminal.send("work")
            terminal.wait_for("custom: rate limited; trying again in ")
            terminal.wait_for("All done.")
            terminal.wait_until_idle()
            terminal.wait_until_gone("rate limited")  # the countdown is one line, and no part of the answer
            assert "exit 3\n  whoops\n" in terminal.text
            assert "  -old 0\n  +new 0\n" in terminal.text
            assert "more lines\n" in terminal.text and "  +new 38" not in terminal.text, "a long diff is folded"
            colours = {line[0]: line[1] for line in _first_cells(terminal)}
            assert colours["✗"] == "red" and colours["-"] == "red" and colours["+"] == "green"

            terminal.send("/history 2")
            terminal.wait_for("Assistant:\nAll done.")
            terminal.send("/export talk.md")
            terminal.wait_until(lambda: (workdir / "talk.md").exists(), "the export")
            terminal.send("/init")
            terminal.wait_for("Written.")
            terminal.type(CTRL_D)
            assert terminal.end() == 0
    assert "Water the plants." in provider.requests[0].last_user_text
    assert "Answer in French." in str(provider.requests[0].messages[0]["content"])
    assert "All done." in (workdir / "talk.md").read_text()
    assert "AGENTS.md" in provider.requests[-1].last_user_text


def _character_and_colour(character: str, colour: str, *_style: bool) -> tuple[str, str]:
    return character, colour


def _first_cells(terminal: ReplTerminal) -> list[tuple[str, str]]:
    """The first character of each row that is not blank, and its colour."""
    rows = terminal.cells(_character_and_colour)
    return [next(cell for cell in row if cell[0].strip()) for row in rows if any(cell[0].strip() for cell in row)]


def _never(_environment: object) -> bool:
    return False


def test_ctrl_z_suspends_and_fg_brings_the_prompt_back(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = " ".join(repl_terminal.hermes_command())
    monkeypatch.setattr(repl_terminal, "hermes_command", lambda: ["/bin/sh", "-i"])
    monkeypatch.setattr(repl_terminal, "can_fork", _never)
    with ScriptedProvider([text("Here again.")]) as provider:
        write_config(home, provider.base_url)
        with ReplTerminal(home, workdir, env={"PS1": "shell: ", "ENV": ""}, ready="shell:") as terminal:
            terminal.send(start)
            terminal.wait_for("· /help")
            terminal.wait_until_idle()
            terminal.type("half a" + CTRL_Z)
            terminal.wait_until(
                lambda: terminal.rows[-1].startswith("shell:") or "topped" in terminal.text, "the shell"
            )
            terminal.send("fg")
            terminal.wait_for("> half a")
            terminal.send(" thought")
            terminal.wait_for("Here again.")
            terminal.send("/quit")
            terminal.wait_for("hermes chat --resume")
            terminal.send("exit")
            assert terminal.end() == 0
    assert provider.requests[0].last_user_text == "half a thought"
