"""Programs that Hermes starts itself are not those that a command could have made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes.base import programs
from hermes.base.programs import find_program, note_changeable, owners_command, trusted_folders
from support.programs import write_program


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose only program is in ``tools``, seen from an empty folder."""
    monkeypatch.setattr(programs, "_changed", {})
    for name in ("tmp", "here", "home", "tools"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "here")
    write_program(tmp_path / "tools", "tool", "echo ours")
    return tmp_path


def planted(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_program(folder, "tool", "echo planted")
    return folder


def set_path(monkeypatch: pytest.MonkeyPatch, *folders: Path | str) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))


def test_a_folder_that_commands_change_has_no_program_of_the_machine(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = planted(machine / "work" / ".venv" / "bin")
    set_path(monkeypatch, bad, machine / "tools")
    assert find_program("tool") == str(bad / "tool")
    note_changeable([str(machine / "work")])
    assert find_program("tool") == str(machine / "tools" / "tool")
    assert trusted_folders() == [str(machine / "tools")]
    set_path(monkeypatch, bad)
    assert find_program("tool") is None


def test_nor_have_relative_and_temporary_folders_and_the_repository_around(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "repo" / ".git").mkdir(parents=True)
    inner = machine / "repo" / "sub"
    inner.mkdir()
    monkeypatch.chdir(inner)
    for folder in (inner / "bin", machine / "repo" / "bin", machine / "tmp" / "bin"):
        set_path(monkeypatch, planted(folder))
        assert find_program("tool") is None, folder
    monkeypatch.chdir(planted(machine / "elsewhere"))
    for folder in (".", "", "bin", "../elsewhere"):
        set_path(monkeypatch, folder)
        assert find_program("tool") is None, folder


def test_a_link_into_such_a_folder_or_out_of_it_does_not_help(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = planted(machine / "work")
    note_changeable([str(work)])
    (machine / "linked").symlink_to(work)
    (machine / "file").mkdir()
    (machine / "file" / "tool").symlink_to("../work/tool")
    (work / "out").symlink_to(machine / "tools")
    (machine / "through").symlink_to("work/out")
    for folder in ("linked", "file", "work/out", "through", "tools/../work"):
        set_path(monkeypatch, machine / folder)
        assert find_program("tool") is None, folder
    (machine / "own").symlink_to("tools")
    set_path(monkeypatch, machine / "own")
    assert find_program("tool") == str(machine / "own" / "tool")


def test_what_is_read_only_in_a_workspace_counts(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = machine / "home"
    own, bad = planted(home / ".local" / "bin"), planted(home / ".venv" / "bin")
    note_changeable([str(home)])
    set_path(monkeypatch, bad)
    assert find_program("tool") == str(bad / "tool")  # it is not known what commands may change there
    note_changeable([str(home)], [str(own)])
    set_path(monkeypatch, bad, own)
    assert find_program("tool") == str(own / "tool")


def test_programs_of_the_system_come_first_where_it_does_not_matter(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(machine / "tools", "env", "echo other")
    set_path(monkeypatch, machine / "tools", "/usr/bin")
    assert find_program("env") == str(machine / "tools" / "env")
    assert find_program("env", system_first=True) == "/usr/bin/env"


def test_a_command_of_the_owner_is_named_by_its_path(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_path(monkeypatch, planted(machine / "here"), machine / "tools")
    assert owners_command(["tool", "-x"]) == [str(machine / "tools" / "tool"), "-x"]
    assert owners_command(["./tool"]) == ["./tool"]
    set_path(monkeypatch, machine / "here")
    with pytest.raises(FileNotFoundError, match="no folder of PATH"):
        owners_command(["tool"])
