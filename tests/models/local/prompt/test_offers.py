"""What the embedded model may call: what a person names, or a harmless look, and nothing for mere talk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.models.local.prompt.calls import LOOKS, CandidateCall, candidate_calls

BOTH = ("terminal", "read_file")


def values(asked: str) -> list[str]:
    return [offer.value for offer in candidate_calls(asked, BOTH)]


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("Read the file README.md", "README.md"),
        ("What's written in server/main.go?", "server/main.go"),
        ("Open LICENSE", "LICENSE"),
        ("Give me the content of ~/.bashrc", "~/.bashrc"),
        ("Please read '/tmp/a b.txt'", "/tmp/a b.txt"),
        ("Read `my file.txt`", "my file.txt"),
        ("Display (.gitignore).", ".gitignore"),
        ("look at ./x/../y.py!", "./x/../y.py"),
    ],
)
def test_files_that_are_named(asked: str, path: str) -> None:
    assert candidate_calls(asked, BOTH) == [CandidateCall("read_file", path)]


@pytest.mark.parametrize(
    ("asked", "command"),
    [
        ("Run `uname -a`", "uname -a"),
        ("run make build", "make build"),
        ("Please run ls -la /tmp please.", "ls -la /tmp"),
        ('Execute the command "git status --short"', "git status --short"),
        ("Can you run `cat a.txt` for me?", "cat a.txt"),
        ("What time is it?", "date"),
        ("Which files are here?", "ls"),
        ("How full is my disk?", "df -h"),
        ("Show me the recent commits", "git log -5"),
        ("What is my current directory?", "pwd"),
    ],
)
def test_commands_that_are_named_or_only_look(asked: str, command: str) -> None:
    assert candidate_calls(asked, BOTH) == [CandidateCall("terminal", command)]


@pytest.mark.parametrize(
    "asked",
    [
        "",
        "Thank you!",
        "What is a file?",
        "Explain the command `rm -rf x`",
        "I run every day",
        "Compare 3.5 and 4.2, e.g. with 10/2",
        "http://example.com/x is nice, and/or not",
        "What is the process of making bread?",
        "Why is the sky blue today?",
        "What's up, Mr. Smith?",
    ],
)
def test_mere_talk(asked: str) -> None:
    assert values(asked) == []


def test_several_files() -> None:
    assert values("Read a.txt and then b.txt, and a.txt again") == ["a.txt", "b.txt"]
    assert len(values(" ".join(f"file{number}.txt" for number in range(50)))) == 8


def test_tools_that_are_not_offered() -> None:
    assert candidate_calls("Run `ls`", ["read_file"]) == []
    assert candidate_calls("Read a.txt", []) == []


@given(st.text())
def test_nothing_is_made_up(asked: str) -> None:
    """Whatever is said, a call is made of the person's own words or is one of the harmless looks."""
    for tool, value in candidate_calls(asked, BOTH):
        assert value.isprintable()
        assert value in asked or (tool == "terminal" and value in LOOKS)
