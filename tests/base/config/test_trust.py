"""Trust in project folders: stored by folder, private, and never given to a caller."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hermes.base.config.trust import FILE_NAME, FolderTrust, how_to_trust, project_root
from hermes.base.errors import ConfigError
from hermes.surfaces.cli.main import main


def test_a_folder_is_trusted_exactly_and_the_answer_is_stored_privately(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    trust = FolderTrust(home)
    assert trust.decision(project) is None
    assert not trust.is_trusted(project)

    trust.decide(project, is_trusted=True)
    other = FolderTrust(home)
    assert other.is_trusted(project)
    assert not other.is_trusted(project / "inner")
    assert not other.is_trusted(tmp_path)
    assert (home / FILE_NAME).stat().st_mode & 0o777 == 0o600

    trust.decide(project, is_trusted=False)
    assert FolderTrust(home).decision(project) is False
    assert trust.forget(project) is not None
    assert FolderTrust(home).decision(project) is None
    assert trust.forget(project) is None


def test_a_link_is_the_folder_it_leads_to(tmp_path: Path) -> None:
    project, link = tmp_path / "project", tmp_path / "link"
    project.mkdir()
    link.symlink_to(project)
    trust = FolderTrust(tmp_path / "home")
    trust.decide(link, is_trusted=True)
    assert trust.is_trusted(project)
    link.unlink()
    (tmp_path / "stranger").mkdir()
    link.symlink_to(tmp_path / "stranger")
    assert not trust.is_trusted(link)


def test_a_caller_is_never_trusted(tmp_path: Path) -> None:
    trust = FolderTrust(tmp_path / "home")
    trust.decide(tmp_path, is_trusted=True)
    assert trust.is_trusted(tmp_path)
    assert not trust.is_trusted(tmp_path, "alice")


def test_a_broken_file_trusts_nothing_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"folders": [{"folder": 3}]}')
    trust = FolderTrust(tmp_path)
    assert not trust.is_trusted(tmp_path)
    with pytest.raises(ConfigError, match="not a list of trusted folders"):
        trust.decisions()
    with pytest.raises(ConfigError, match="not a list of trusted folders"):
        trust.decide(tmp_path, is_trusted=True)  # what may still be repaired is not overwritten


def test_a_project_is_its_repository_or_the_folder_itself(tmp_path: Path) -> None:
    inner = tmp_path / "repository" / "a" / "b"
    inner.mkdir(parents=True)
    assert project_root(inner) == inner
    (tmp_path / "repository" / ".git").write_text("gitdir: elsewhere\n")
    assert project_root(inner) == tmp_path / "repository"


def test_the_command_adds_lists_and_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "pro ject"
    (project / ".git").mkdir(parents=True)
    (project / "inner").mkdir()
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(project / "inner")
    real = os.path.realpath(project)

    assert how_to_trust(project) == f"hermes trust add '{project}'"
    assert main(["trust"]) == 0
    assert "No folder is trusted" in capsys.readouterr().out
    assert main(["trust", "add"]) == 0  # the project of the working folder
    assert capsys.readouterr().out == f"trusted: {real}\n"
    assert main(["trust", "list", "--json"]) == 0
    assert [(one["folder"], one["is_trusted"]) for one in json.loads(capsys.readouterr().out)] == [(real, True)]
    assert main(["trust", "refuse", str(project)]) == 0
    assert main(["trust", "list"]) == 0
    assert f"refused  {real}" in capsys.readouterr().out
    assert main(["trust", "remove", str(project)]) == 0
    assert main(["trust", "remove", str(project)]) == 1
    assert "there is no decision about" in capsys.readouterr().err
    assert main(["trust", "add", str(project / "inner")]) == 1
    assert f"name {project}" in capsys.readouterr().err
    assert main(["trust", "add", "nowhere"]) == 1
    assert "is not a folder" in capsys.readouterr().err
