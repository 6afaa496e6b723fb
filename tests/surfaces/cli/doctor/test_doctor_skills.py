"""The doctor names the skills of a folder, and those that cannot be used."""

from __future__ import annotations

from pathlib import Path

from hermes.surfaces.cli.doctor.check import Installation
from hermes.surfaces.cli.doctor.tools import check_skills


def test_broken_skills_are_named(home: Path, workdir: Path) -> None:
    for name, fields in (("good", "description: Works.\n"), ("bad", "")):
        place = home / "skills" / name
        place.mkdir(parents=True)
        (place / "SKILL.md").write_text(f"---\nname: {name}\n{fields}---\nText.\n")
    found, broken = check_skills(Installation(home, workdir))
    assert (found.status, found.detail) == ("ok", "good")
    assert broken.status == "warning" and "description is missing" in broken.detail
    assert broken.command == "hermes skills check"
    (home / "config.yaml").write_text("skills:\n  enabled: false\n")
    [off] = check_skills(Installation(home, workdir))
    assert off.detail == "off (skills.enabled)"
