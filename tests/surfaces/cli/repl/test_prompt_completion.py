"""What the prompt offers: commands, their arguments, and paths in real folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from hermes.contract.commands import SlashCommand
from hermes.surfaces.cli.repl.prompt.completion import PromptCompleter
from support.growth import assert_grows_with_the_length

COMMANDS = [
    SlashCommand("quit", "Leave.", aliases=("exit", "q")),
    SlashCommand("help", "List the commands.", aliases=("h", "?")),
    SlashCommand("reasoning", "How hard to think.", words=("low", "medium", "high")),
    SlashCommand("resume", "Go on with a session."),
]


@pytest.fixture
def folder(workdir: Path) -> Path:
    (workdir / "src" / "deep").mkdir(parents=True)
    (workdir / "my folder").mkdir()
    for name in (
        "setup.py",
        "Readme.md",
        ".hidden",
        "my file.txt",
        "my folder/in side.txt",
        "src/main.py",
        'a"b',
        'a "b',
    ):
        (workdir / name).write_text("")
    return workdir


def completions(typed: str, folder: Path) -> list[Completion]:
    completer = PromptCompleter(lambda: COMMANDS, folder)
    return list(completer.get_completions(Document(typed), CompleteEvent(completion_requested=True)))


def outcomes(typed: str, folder: Path) -> list[str]:
    """The line as each completion would make it."""
    return [
        typed[: len(typed) + completion.start_position] + completion.text for completion in completions(typed, folder)
    ]


def test_commands_by_name_and_alias(folder: Path) -> None:
    assert outcomes("/", folder) == ["/help", "/quit", "/reasoning", "/resume"]
    assert outcomes("/re", folder) == ["/reasoning", "/resume"]
    assert outcomes("/RES", folder) == ["/resume"]
    assert outcomes("/ex", folder) == ["/exit"]
    assert outcomes("/q", folder) == ["/quit"]
    assert outcomes("/zzz", folder) == []
    assert outcomes("re", folder) == outcomes("say /re", folder) == []
    [completion] = completions("/h", folder)
    assert (completion.display_text, completion.display_meta_text) == ("/help", "List the commands.")


def test_arguments_come_from_the_table(folder: Path) -> None:
    assert outcomes("/reasoning ", folder) == ["/reasoning low", "/reasoning medium", "/reasoning high"]
    assert outcomes("/reasoning  ME", folder) == ["/reasoning  medium"]
    assert outcomes("/help l", folder) == outcomes("/reason l", folder) == []


def test_new_commands_are_seen_at_once(folder: Path) -> None:
    table = list(COMMANDS)
    completer = PromptCompleter(lambda: table, folder)
    table.append(SlashCommand("zoom", "Look closer."))
    offered = completer.get_completions(Document("/z"), CompleteEvent())
    assert [completion.text for completion in offered] == ["zoom"]


def test_paths_after_an_at_sign(folder: Path) -> None:
    assert outcomes("look at @s", folder) == ["look at @setup.py", "look at @src/"]
    assert outcomes("@src/", folder) == ["@src/deep/", "@src/main.py"]
    assert outcomes("@read", folder) == ["@Readme.md"]
    assert outcomes("@Read", folder) == ["@Readme.md"]
    assert outcomes("@READ", folder) == []
    assert outcomes("@.h", folder) == ["@.hidden"]
    assert "@.hidden" not in outcomes("@", folder)
    assert outcomes("someone@s", folder) == []
    assert outcomes("first line\nthen @set", folder) == ["first line\nthen @setup.py"]
    assert [completion.display_text for completion in completions("@src/", folder)] == ["deep/", "main.py"]


def test_paths_in_words_that_look_like_one(folder: Path) -> None:
    assert outcomes("/resume ./s", folder) == ["/resume ./setup.py", "/resume ./src/"]
    assert outcomes("see src/ma", folder) == []
    assert outcomes("see ./src/ma", folder) == ["see ./src/main.py"]
    assert outcomes(f"{folder}/src/m", folder) == [f"{folder}/src/main.py"]
    assert outcomes(f"@../{folder.name}/set", folder) == [f"@../{folder.name}/setup.py"]


def test_home_is_understood(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert outcomes("see ~", folder / "src") == ["see ~/"]
    assert outcomes("see ~/se", folder / "src") == ["see ~/setup.py"]
    assert outcomes("@~no-such-user-here/", folder) == []


def test_blanks_are_quoted(folder: Path) -> None:
    assert outcomes("@my", folder) == ['@"my file.txt"', '@"my folder/']
    assert outcomes('@"my fo', folder) == ['@"my folder/']
    assert outcomes('@"my folder/', folder) == ['@"my folder/in side.txt"']
    assert outcomes('see "./my fi', folder) == ['see "./my file.txt"']
    assert outcomes('@"set', folder) == ['@"setup.py"']
    assert outcomes('he said "no and @set', folder) == ['he said "no and @setup.py']
    assert outcomes("@a", folder) == ['@a"b']


def test_names_that_would_drive_the_terminal_are_not_offered(folder: Path) -> None:
    (folder / "x\x1b[2J").write_text("")
    (folder / "x\ny").write_text("")
    os.close(os.open(os.fsencode(folder) + b"/x\xff", os.O_CREAT | os.O_WRONLY))
    (folder / "xé中").write_text("")
    assert outcomes("@x", folder) == ["@xé中"]


def test_links_and_what_is_missing(folder: Path) -> None:
    (folder / "to-src").symlink_to("src")
    (folder / "to-nowhere").symlink_to("nowhere")
    assert outcomes("@to", folder) == ["@to-nowhere", "@to-src/"]
    assert outcomes("@to-src/ma", folder) == ["@to-src/main.py"]
    assert outcomes("@nowhere/", folder) == outcomes("@setup.py/", folder) == outcomes("@\0/", folder) == []


def test_a_huge_folder_offers_a_bounded_number(workdir: Path) -> None:
    for number in range(1_000):
        (workdir / f"file{number:05}").touch()
    offered = outcomes("@file", workdir)
    assert offered[0].startswith("@file") and len(offered) == 200


def test_a_long_text_before_the_cursor_costs_nothing_more(folder: Path) -> None:
    def completing(words: int) -> Callable[[], object]:
        typed = 'word "quoted ' * words
        assert outcomes(typed + "@set", folder) == [typed + "@setup.py"]
        return lambda: outcomes(typed + "@set", folder)

    assert_grows_with_the_length(completing, 2_500)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.text(alphabet="/@~.\"' ab\n\t\\é\0", max_size=20))
def test_any_text_can_be_completed(folder: Path, typed: str) -> None:
    for completion in completions(typed, folder):
        assert -len(typed) <= completion.start_position <= 0
