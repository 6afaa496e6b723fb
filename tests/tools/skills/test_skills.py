"""Skills are found in the project, the home and plugins, read once, and never run or trusted beyond their text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config.schema.sections import SkillsConfig
from hermes.base.errors import HermesError
from hermes.plugins.registry import Skill
from hermes.tools.skills import index
from hermes.tools.skills.content import skill_file, skill_text, skill_view
from hermes.tools.skills.manifest import MAX_FILE_BYTES, SkillManifest, read_manifest
from hermes.tools.skills.skills import MAX_LISTED_CHARS, MAX_PROMPT_CHARS, Skills


def write_skill(
    folder: Path, name: str, description: str = "Does a thing.", body: str = "Do it.", more: str = ""
) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n{more}---\n\n{body}\n")
    return place


def skills_of(home: Path, **settings: Any) -> Skills:
    return Skills(home, SkillsConfig(**settings))


def names(found: list[SkillManifest]) -> list[str]:
    return [skill.name for skill in found]


# -- where they are found --------------------------------------------------------------------------------------------


def test_the_project_comes_before_the_home_and_both_before_plugins(home: Path, workdir: Path) -> None:
    (workdir / ".git").mkdir()
    inner = workdir / "package"
    inner.mkdir()
    write_skill(workdir / ".claude/skills", "shared", "From the project.")
    write_skill(workdir / ".agents/skills", "agents-only")
    write_skill(inner / ".hermes/skills", "inner")
    write_skill(home / "skills", "shared", "From the home.")
    write_skill(home / "skills/writing", "letters")
    registered = {"kit:pack": Skill("kit:pack", write_skill(home / "elsewhere", "pack"), "Packs.", "kit")}
    skills = Skills(home, SkillsConfig(), lambda: registered)
    found = skills.usable(inner)
    assert names(found) == ["inner", "agents-only", "shared", "letters", "kit:pack"]
    assert {skill.name: skill.source for skill in found}["shared"] == "project"
    assert {skill.name: skill.category for skill in found}["letters"] == "writing"
    assert names(skills.all(inner)).count("shared") == 2


def test_settings_switch_skills_off_one_by_one_by_place_and_all(home: Path, workdir: Path) -> None:
    write_skill(workdir / ".hermes/skills", "here")
    write_skill(home / "skills", "mine")
    write_skill(home / "more", "extra")
    assert names(skills_of(home, folders=[str(home / "more")]).usable(workdir)) == ["here", "mine", "extra"]
    assert names(skills_of(home, disabled=["mine"]).usable(workdir)) == ["here"]
    assert names(skills_of(home, project=False).usable(workdir)) == ["mine"]
    assert skills_of(home, enabled=False).usable(workdir) == []


def test_a_caller_has_the_skills_of_its_own_folder_alone(home: Path, workdir: Path) -> None:
    (workdir / ".git").mkdir()
    own = workdir / "caller"
    own.mkdir()
    write_skill(workdir / ".hermes/skills", "above")
    write_skill(own / ".hermes/skills", "own")
    write_skill(home / "skills", "mine")
    assert names(skills_of(home).usable(own, "alice")) == ["own"]
    assert names(skills_of(home, for_callers=True).usable(own, "alice")) == ["own", "mine"]


# -- the index -------------------------------------------------------------------------------------------------------


def test_a_skill_is_read_once_and_again_when_it_changed(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        write_skill(home / "skills", f"skill-{number:02}")
    read: list[str] = []

    def counted(folder: Path, *arguments: Any, **more: Any) -> SkillManifest:
        read.append(folder.name)
        return read_manifest(folder, *arguments, **more)

    monkeypatch.setattr(index, "read_manifest", counted)
    assert len(skills_of(home).usable(workdir)) == 20
    assert len(read) == 20
    assert len(skills_of(home).usable(workdir)) == 20, "another process finds the same in the file"
    assert len(read) == 20
    changed = home / "skills/skill-03/SKILL.md"
    changed.write_text(changed.read_text().replace("Does a thing.", "Does another."))
    assert skills_of(home).find("skill-03", workdir).description == "Does another."  # pyright: ignore[reportOptionalMemberAccess]
    assert read[20:] == ["skill-03"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1}', b"\x00\xff"])
def test_a_broken_index_is_made_again(home: Path, workdir: Path, content: bytes) -> None:
    write_skill(home / "skills", "mine")
    (home / "cache").mkdir()
    (home / "cache/skills.json").write_bytes(content)
    assert names(skills_of(home).usable(workdir)) == ["mine"]
    assert names(skills_of(home).usable(workdir)) == ["mine"]


def test_the_home_without_skills_gets_no_index(home: Path, workdir: Path) -> None:
    assert skills_of(home).usable(workdir) == []
    assert not home.exists()


# -- broken skills ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("just text", "description is missing"),
        ("---\nname: x\ndescription: y\n", "has no end"),
        ("---\nname: x\n  description: [y\n---\n", "front matter"),
        ("---\n- a\n- b\n---\n", "front matter"),
        ("---\nname: x\n---\nbody", "description is missing"),
        ("---\nname: x\ndescription: !!python/object/apply:os.system ['true']\n  x: y\n---\n", "front matter"),
        ("---\nname: x\ndescription: y\n---\n" + "z" * MAX_FILE_BYTES, "more than 262,144 bytes"),
    ],
)
def test_a_broken_skill_says_what_is_wrong_and_is_not_used(home: Path, workdir: Path, text: str, problem: str) -> None:
    place = write_skill(home / "skills", "broken")
    (place / "SKILL.md").write_text(text)
    [found] = skills_of(home).all(workdir)
    assert problem in found.problem
    assert skills_of(home).usable(workdir) == []


def test_bytes_that_are_no_text_and_links_out_of_the_project_are_broken(home: Path, workdir: Path) -> None:
    place = write_skill(workdir / ".hermes/skills", "latin")
    (place / "SKILL.md").write_bytes(b"---\nname: latin\ndescription: caf\xe9\n---\n")
    outside = write_skill(home / "secret", "outside")
    (workdir / ".hermes/skills/linked").symlink_to(outside)
    (workdir / ".hermes/skills/file").mkdir()
    (workdir / ".hermes/skills/file/SKILL.md").symlink_to(outside / "SKILL.md")
    problems = {skill.name: skill.problem for skill in skills_of(home).all(workdir)}
    assert "not UTF-8" in problems["latin"]
    assert "is a link that leaves" in problems["linked"]
    assert "is a link that leaves" in problems["file"]


def test_unknown_fields_odd_names_and_windows_lines_are_taken(home: Path, workdir: Path) -> None:
    place = home / "skills/My_Skill"
    place.mkdir(parents=True)
    (place / "SKILL.md").write_bytes(
        b"\xef\xbb\xbf---\r\nname: Other\r\ndescription: |\r\n  Two\r\n  lines.\r\nversion: 3\r\nhooks: {a: [1]}\r\n"
        b"---\r\nBody.\r\n"
    )
    [skill] = skills_of(home).usable(workdir)
    assert (skill.name, skill.description) == ("Other", "Two lines.")
    assert len(skill.remarks) == 2
    assert skill_text(skill) == "Body."


def test_tools_by_the_names_of_other_agents_are_understood(home: Path, workdir: Path) -> None:
    write_skill(home / "skills", "a", more="allowed-tools: Bash(git:*), Read WebFetch\n")
    write_skill(home / "skills", "b", more="allowed-tools: [Grep, Glob, my_tool]\n")
    found = {skill.name: skill.allowed_tools for skill in skills_of(home).usable(workdir)}
    assert found == {"a": ("terminal", "read_file", "web_fetch"), "b": ("search_files", "my_tool")}


# -- content ---------------------------------------------------------------------------------------------------------


def test_a_view_has_the_text_and_names_the_files(home: Path) -> None:
    place = write_skill(home / "skills", "pdf", body="Run scripts/fill.py.")
    (place / "scripts").mkdir()
    (place / "scripts/fill.py").write_text("print('filled')\n")
    (place / ".git").mkdir()
    (place / ".git/config").write_text("x")
    view = skill_view(read_manifest(place, "user"))
    assert view["content"] == "Run scripts/fill.py."
    assert view["linked_files"] == ["scripts/fill.py"]
    assert skill_file(read_manifest(place, "user"), "scripts/fill.py")["content"] == "print('filled')\n"


@pytest.mark.parametrize("path", ["../other/SKILL.md", "/etc/passwd", "link", ".", "scripts/../../other/SKILL.md"])
def test_no_path_leads_out_of_a_skill(home: Path, path: str) -> None:
    place = write_skill(home / "skills", "pdf")
    other = write_skill(home / "skills", "other")
    (place / "link").symlink_to(other / "SKILL.md")
    with pytest.raises(HermesError, match="leads out of the skill's folder"):
        skill_file(read_manifest(place, "user"), path)


def test_binary_files_pipes_and_missing_files_are_refused(home: Path) -> None:
    place = write_skill(home / "skills", "pdf")
    (place / "logo.png").write_bytes(b"\x89PNG\0\0")
    os.mkfifo(place / "pipe")
    skill = read_manifest(place, "user")
    with pytest.raises(HermesError, match="is a binary file"):
        skill_file(skill, "logo.png")
    with pytest.raises(HermesError, match=r"No such file.*logo\.png"):
        skill_file(skill, "missing.md")
    assert skill_file(skill, "pipe")["content"] == "", "reading a pipe does not wait"


def test_the_list_in_the_prompt_is_short_however_many_there_are(home: Path, workdir: Path) -> None:
    for number in range(200):
        write_skill(home / "skills", f"skill-{number:03}", "Useful. " * 60)
    block = skills_of(home).prompt_block(workdir)
    lines = block.splitlines()
    assert all(len(line) <= MAX_LISTED_CHARS for line in lines[1:])
    assert len(block) < MAX_PROMPT_CHARS + 1_000
    listed = sum(line.startswith("- ") for line in lines)
    assert lines[-1] == f"and {200 - listed} more: skills_list has them"


def test_the_index_is_data_that_any_version_can_refuse(home: Path, workdir: Path) -> None:
    write_skill(home / "skills", "mine")
    skills_of(home).usable(workdir)
    stored = msgspec.json.decode((home / "cache/skills.json").read_bytes())
    assert list(stored) == [f"user::{home / 'skills/mine/SKILL.md'}"]
