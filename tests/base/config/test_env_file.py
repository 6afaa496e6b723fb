"""Reading ``$HERMES_HOME/.env`` and putting it into the environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.base.config import apply_env, env_path, load_env_file
from hermes.base.errors import ConfigError


def write(home: Path, text: str | bytes, mode: int = 0o600) -> None:
    home.mkdir(exist_ok=True)
    data = text.encode() if isinstance(text, str) else text
    env_path(home).write_bytes(data)
    env_path(home).chmod(mode)


def test_no_file_no_variables(home: Path) -> None:
    assert load_env_file(home) == {}


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("  A = 1  ", "1"),
        ("export A=1", "1"),
        ("A=", ""),
        ("A=a b c", "a b c"),
        ("A=a#b", "a#b"),
        ("A=a # said aside", "a"),
        ("A=# nothing", ""),
        ("A='single $x \\n # kept'", "single $x \\n # kept"),
        ('A="tab\\tnew\\nquote\\" slash\\\\ dollar\\$"  # aside', 'tab\tnew\nquote" slash\\ dollar$'),
        ("A=x=y==", "x=y=="),
        ("A=ü", "ü"),
    ],
)
def test_a_line(home: Path, line: str, value: str) -> None:
    write(home, f"# comment\r\n\r\n{line}\r\n")
    warnings: list[str] = []
    assert load_env_file(home, warnings=warnings) == {"A": value}
    assert warnings == []


def test_a_byte_order_mark_and_a_later_line_that_wins(home: Path) -> None:
    write(home, "\ufeffA=1\nA=2\n")
    assert load_env_file(home) == {"A": "2"}


@pytest.mark.parametrize(
    "line", ["just words", "1A=x", "A-B=secret-v", "A='secret-v", 'A="secret-v', "A='a' secret-v", "=secret-v"]
)
def test_a_bad_line_is_named_by_number_never_by_content(home: Path, line: str) -> None:
    write(home, f"GOOD=1\n{line}\nALSO=2\n")
    warnings: list[str] = []
    assert load_env_file(home, warnings=warnings) == {"GOOD": "1", "ALSO": "2"}
    assert warnings == [f"{env_path(home)}, line 2: not a NAME=value line; it is left out"]


@pytest.mark.parametrize("line", [b"A=\xff\xfe", b"A=a\x00b"])
def test_bytes_that_no_variable_can_hold(home: Path, line: bytes) -> None:
    write(home, b"GOOD=1\n" + line + b"\n")
    warnings: list[str] = []
    assert load_env_file(home, warnings=warnings) == {"GOOD": "1"}
    assert len(warnings) == 1


def test_a_file_that_others_can_read_is_pointed_out(home: Path) -> None:
    write(home, "KEY=secret-v\n", mode=0o644)
    warnings: list[str] = []
    assert load_env_file(home, warnings=warnings) == {"KEY": "secret-v"}
    assert warnings == [f"{env_path(home)}: others on this machine can read it; run: chmod 600 {env_path(home)}"]


def test_a_directory_in_place_of_the_file(home: Path) -> None:
    env_path(home).mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"\.env: cannot be read: Is a directory"):
        load_env_file(home)


def test_the_file_wins_over_the_shell_but_cannot_move_the_home() -> None:
    environ = {"A": "shell", "B": "shell", "HERMES_HOME": "/here"}
    apply_env({"A": "file", "HERMES_HOME": "/there"}, environ)
    assert environ == {"A": "file", "B": "shell", "HERMES_HOME": "/here"}


def test_without_a_target_the_process_environment_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("HERMES_TEST_VALUE", "shell")
    apply_env({"HERMES_TEST_VALUE": "file"})
    assert os.environ["HERMES_TEST_VALUE"] == "file"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_no_content_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    home = tmp_path_factory.mktemp("home")
    write(home, data)
    values = load_env_file(home)
    apply_env(values, {})
    assert all("\0" not in value for value in values.values())
