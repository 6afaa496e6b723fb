"""Installs skills into the user's folder, from a folder or a git repository, and removes them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.base.errors import HermesError
from hermes.plugins.install.fetch import copy_tree, fetch_origin
from hermes.plugins.install.source import InstallSource, parse_source
from hermes.tools.skills.manifest import FILE_NAME, SkillManifest, read_manifest


def add_skills(
    home: Path,
    text: str,
    cwd: Path,
    env: Mapping[str, str],
    *,
    ref: str = "",
    take_all: bool = False,
    force: bool = False,
) -> list[SkillManifest]:
    """Copy the skill that ``text`` names, or all in that place, into the home. Nothing of it is run."""
    source = _source(text, cwd, ref)
    folder = home / "skills"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=folder) as work:
        origin, _ = fetch_origin(source, Path(work), env)
        chosen = _chosen(origin, source, take_all)
        for skill in chosen:
            if skill.problem:
                raise HermesError(f"{skill.name} is not added: {skill.problem}")
            _refuse_clash(folder / skill.name, force)
        for skill in chosen:
            staged = Path(work, "files", skill.name)
            copy_tree(Path(skill.folder), staged)
            target = folder / skill.name
            if target.is_symlink():
                target.unlink()
            elif target.exists():
                shutil.rmtree(target)
            staged.rename(target)
    return [read_manifest(folder / skill.name, "user") for skill in chosen]


def remove_skill(skill: SkillManifest, home: Path) -> Path:
    """Delete a skill of the user's folder, or just the link to it."""
    folder = Path(skill.folder)
    if skill.source != "user" or not folder.is_relative_to(home / "skills"):
        owner = {"project": "belongs to the project", "plugin": "comes with a plugin"}.get(skill.source, "is outside")
        raise HermesError(f"{skill.name} {owner} ({folder}); only skills in {home / 'skills'} are removed")
    try:
        folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
    except OSError as error:
        raise HermesError(f"{folder}: cannot be removed: {error.strerror}") from None
    return folder


def _source(text: str, cwd: Path, ref: str) -> InstallSource:
    if (cwd / Path(text).expanduser() / FILE_NAME).is_file():
        return InstallSource("path", str((cwd / Path(text).expanduser()).resolve()))
    source = parse_source(text, cwd, ref)
    if source.kind == "package":
        raise HermesError(
            f"{text!r} is not a place to install a skill from; "
            "give a folder, a git URL, or owner/repo/folder for GitHub"
        )
    return source


def _chosen(origin: Path, source: InstallSource, take_all: bool) -> Sequence[SkillManifest]:
    if (origin / FILE_NAME).is_file():
        found = read_manifest(origin, "user")
        # A clone has a name of its own; the skill's is that of the repository when it gives none.
        if source.kind == "git" and not source.subfolder and found.name == origin.name:
            raise HermesError(f"{source.shown}: the skill has no name; add 'name:' to its {FILE_NAME}")
        return [found]
    inside = _skills_inside(origin)
    if inside and take_all:
        return [read_manifest(origin / path, "user") for path in inside]
    hint = f"; it has {', '.join(inside[:12])}: name one, or add them with --all" if inside else ""
    raise HermesError(f"{source.shown} is not a skill: it has no {FILE_NAME}{hint}")


def _skills_inside(folder: Path) -> list[str]:
    found: list[str] = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in (".git", "node_modules"))
        if FILE_NAME in names:
            found.append(Path(root).relative_to(folder).as_posix())
            folders.clear()
    return found


def _refuse_clash(target: Path, force: bool) -> None:
    if os.path.lexists(target) and not force:
        raise HermesError(f"{target} exists; --force replaces it, 'hermes skills remove {target.name}' removes it")
