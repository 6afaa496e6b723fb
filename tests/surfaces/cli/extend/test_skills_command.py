"""``hermes skills`` lists, adds, checks and removes skills, and runs nothing of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hermes.surfaces.cli.main import main
from support.configured import write_plugin


@pytest.fixture(autouse=True)
def here(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workdir)


def write_skill(folder: Path, name: str, description: str = "Counts sheep.") -> Path:
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\nCount.\n")
    return place


def test_a_folder_is_added_listed_and_removed(home: Path, workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_skill(workdir, "sheep")
    (place / "run.sh").write_text("touch ran\n")
    (place / "run.sh").chmod(0o755)
    assert main(["skills", "add", "sheep"]) == 0
    assert "added sheep: Counts sheep." in capsys.readouterr().out
    assert (home / "skills/sheep/run.sh").read_text() == "touch ran\n"
    assert main(["skills"]) == 0
    assert capsys.readouterr().out == "sheep  user     Counts sheep.\n"
    assert main(["skills", "add", "./sheep"]) == 1
    assert "--force replaces it" in capsys.readouterr().err
    (place / "SKILL.md").write_text("---\nname: sheep\ndescription: New.\n---\n")
    assert main(["skills", "add", "./sheep", "--force"]) == 0
    assert main(["skills", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n[")[2].join(["[", ""]))[0]["description"] == "New."
    assert main(["skills", "remove", "sheep"]) == 0
    assert list((home / "skills").iterdir()) == []
    assert not list(workdir.rglob("ran"))


def test_skills_of_plugins_are_listed_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "from pathlib import Path\nprint('loading')\ndef register(ctx):\n"
    code += "    ctx.register_skill('count', Path(__file__).parent / 'sheep')\n"
    write_plugin(home, "farm", code)
    write_skill(home / "plugins/farm", "sheep")
    write_skill(home / "skills", "goats", "Counts goats.")
    assert main(["skills"]) == 0
    assert "farm:" not in capsys.readouterr().out, "it is not enabled"
    (home / "config.yaml").write_text("plugins: {enabled: [farm]}\n")
    assert main(["skills"]) == 0
    assert capsys.readouterr().out == "goats       user     Counts goats.\nfarm:count  plugin   Counts sheep.\n"
    assert main(["skills", "list", "--json"]) == 0
    assert [skill["source"] for skill in json.loads(capsys.readouterr().out)] == ["user", "plugin"]
    assert main(["skills", "check"]) == 0
    assert "2 skills, 0 cannot be used" in capsys.readouterr().out


def test_a_repository_gives_one_skill_or_all(home: Path, workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    repository = workdir / "repository"
    write_skill(repository / "skills", "one")
    write_skill(repository / "skills", "two")
    for command in (
        ["git", "init", "-q"],
        ["git", "add", "."],
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(command, cwd=repository, check=True, timeout=60)
    url = repository.as_uri()
    assert main(["skills", "add", url]) == 1
    assert "it has skills/one, skills/two: name one, or add them with --all" in capsys.readouterr().err
    assert main(["skills", "add", f"{url}#skills/one"]) == 0
    assert sorted(path.name for path in (home / "skills").iterdir()) == ["one"]
    assert main(["skills", "add", url, "--all", "--force"]) == 0
    assert sorted(path.name for path in (home / "skills").iterdir()) == ["one", "two"]


def test_what_is_no_skill_is_refused_and_leaves_nothing(
    home: Path, workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = write_skill(workdir, "broken", "")
    leaving = write_skill(workdir, "leaving")
    (leaving / "passwords").symlink_to("/etc/passwd")
    for source, message in (
        (broken.name, "description is missing"),
        (leaving.name, "leads out of its folder"),
        ("./nothing", "there is no such folder"),
        ("requests", "is not a place to install a skill from"),
    ):
        assert main(["skills", "add", source]) == 1
        assert message in capsys.readouterr().err
    assert list((home / "skills").iterdir()) == []


def test_check_names_what_is_broken_odd_and_shadowed(
    home: Path, workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_skill(workdir / ".hermes/skills", "sheep")
    write_skill(home / "skills", "sheep")
    assert main(["skills", "check"]) == 0
    assert "has the same name and comes first" in capsys.readouterr().out
    write_skill(home / "skills", "broken", "")
    write_skill(home / "skills", "Odd")
    assert main(["skills", "check"]) == 1
    shown = capsys.readouterr().out
    assert "broken" in shown and "description is missing" in shown
    assert "should be of small letters" in shown
    assert "4 skills, 1 cannot be used" in shown
    assert main(["skills"]) == 0
    assert "1 cannot be used: 'hermes skills check' says why" in capsys.readouterr().out


def test_skills_of_the_project_are_not_removed(home: Path, workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_skill(workdir / ".hermes/skills", "sheep")
    assert main(["skills", "remove", "sheep"]) == 1
    assert "belongs to the project" in capsys.readouterr().err
    assert main(["skills", "remove", "goat"]) == 1
    assert "there is no skill 'goat'" in capsys.readouterr().err
