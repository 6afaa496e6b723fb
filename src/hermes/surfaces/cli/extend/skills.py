"""``hermes skills``: lists, adds, checks and removes skills."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.base.config import hermes_home, load_config
from hermes.base.errors import HermesError, did_you_mean
from hermes.plugins.install.fetch import copy_tree, fetch_origin
from hermes.plugins.install.source import InstallSource, parse_source
from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line, plain
from hermes.surfaces.commands.text import plural
from hermes.tools.skills.manifest import FILE_NAME, SkillManifest, read_manifest
from hermes.tools.skills.skills import Skills

_EXAMPLES = """
examples:
  hermes skills                                  the skills of this folder and of yours
  hermes skills add ./release-notes              copy a folder with a SKILL.md
  hermes skills add owner/repo/skills/pdf        from a repository on GitHub
  hermes skills check                            what is wrong with them; exit code 1 when one cannot be used
"""
_LONGEST_DESCRIPTION = 76


@contextlib.contextmanager
def _opened_skills(home: Path) -> Generator[Skills]:
    """The skills. Enabled plugins are loaded, for those that they bring."""
    config = load_config(home).config
    if not config.plugins.enabled:
        yield Skills(home, config.skills)
        return
    from hermes.host import Host

    _, redactor, loaded = open_home()
    with contextlib.redirect_stdout(sys.stderr):  # output of plugins while they load
        host = Host(home, msgspec.structs.replace(loaded.config, mcp_servers={}), redactor=redactor)
    with host:
        yield host.runtime.skills


def _list(_args: argparse.Namespace, home: Path) -> Report:
    cwd = Path.cwd()
    with _opened_skills(home) as skills:
        found = skills.usable(cwd)
        broken = [skill for skill in skills.all(cwd) if skill.problem]
    width = max((len(skill.name) for skill in found), default=0)
    lines = [
        f"{skill.name:<{width}}  {skill.source:<7}  {one_line(skill.description, _LONGEST_DESCRIPTION)}"
        for skill in found
    ] or ["No skills. 'hermes skills add SOURCE' copies one into your folder of skills."]
    if broken:
        lines.append(f"{len(broken)} cannot be used: 'hermes skills check' says why")
    return Report([_skill_document(skill) for skill in found], lines)


def _skill_document(skill: SkillManifest) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": skill.name,
        "description": skill.description,
        "source": skill.source,
        "folder": skill.folder,
        "problem": skill.problem,
        "remarks": list(skill.remarks),
    }
    if skill.allowed_tools is not None:
        record["allowed_tools"] = list(skill.allowed_tools)
    return record


def _check(args: argparse.Namespace, home: Path) -> Report:
    cwd = Path.cwd()
    if args.folders:
        found = [read_manifest((cwd / folder).resolve(), "user") for folder in args.folders]
    else:
        with _opened_skills(home) as skills:
            found = skills.all(cwd)
    notes = dict(shadowed(found))
    broken = sum(bool(skill.problem) for skill in found)
    lines = [line for skill in found for line in _problem_lines(skill, notes.get(skill.folder, ""))]
    return Report(
        [{**_skill_document(skill), "shadowed_by": notes.get(skill.folder, "")} for skill in found],
        [*lines, f"{plural(len(found), 'skill')}, {broken} cannot be used"],
        code=1 if broken else 0,
    )


def shadowed(found: list[SkillManifest]) -> Iterator[tuple[str, str]]:
    """The folder of each skill whose name another one has taken before, and the folder of that."""
    first: dict[str, str] = {}
    for skill in found:
        if skill.problem:
            continue
        taken = first.setdefault(skill.name, skill.folder)
        if taken != skill.folder:
            yield skill.folder, taken


def _problem_lines(skill: SkillManifest, taken_by: str) -> Iterator[str]:
    if skill.problem:
        yield f"broken   {skill.problem}"
    for remark in skill.remarks:
        yield f"remark   {skill.folder}: {remark}"
    if taken_by:
        yield f"unused   {skill.folder}: {taken_by} has the same name and comes first"


def _add(args: argparse.Namespace, home: Path) -> None:
    for skill in _copied_skills(args, home):
        print(f"added {plain(skill.name)}: {one_line(skill.description, _LONGEST_DESCRIPTION)}")
        for remark in skill.remarks:
            print(f"  {plain(remark)}")
    print("A skill is instructions for the agent, and may have scripts: read it before you use it.")


def _copied_skills(args: argparse.Namespace, home: Path) -> list[SkillManifest]:
    """Copy the skill that the arguments name, or all in that place, into the home. Nothing of it is run."""
    source = _source(args.source, Path.cwd(), args.ref)
    folder = home / "skills"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".staging-", dir=folder) as work:
        origin, _ = fetch_origin(source, Path(work), os.environ)
        chosen = _chosen(origin, source, args.all)
        for skill in chosen:
            target = folder / skill.name
            if skill.problem:
                raise HermesError(f"{skill.name} is not added: {skill.problem}")
            if os.path.lexists(target) and not args.force:
                remove = f"'hermes skills remove {target.name}' removes it"
                raise HermesError(f"{target} exists; --force replaces it, {remove}")
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


def _remove(args: argparse.Namespace, home: Path) -> None:
    known = {skill.name: skill for skill in reversed(Skills(home, load_config(home).config.skills).all(Path.cwd()))}
    own = {name: skill for name, skill in known.items() if skill.source == "user"}
    for name in args.names:
        skill = own.get(name) or known.get(name)
        if skill is None:
            raise HermesError(f"there is no skill {name!r}{did_you_mean(name, own)}")
        folder = Path(skill.folder)
        if skill.source != "user" or not folder.is_relative_to(home / "skills"):
            owners = {"project": "belongs to the project", "plugin": "comes with a plugin"}
            owner = owners.get(skill.source, "is outside")
            raise HermesError(f"{skill.name} {owner} ({folder}); only skills in {home / 'skills'} are removed")
        try:
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
        except OSError as error:
            raise HermesError(f"{folder}: cannot be removed: {error.strerror}") from None
        print(f"removed {plain(str(folder))}")


COMMAND = CommandSpec(
    default="list",
    opened=lambda _args: contextlib.nullcontext(hermes_home()),
    epilog=_EXAMPLES,
    actions=(
        Action("list", _list, "list the skills that a session here has (the default)").takes(JSON),
        Action("check", _check, "check skills; exit code 1 when one cannot be used").takes(
            Argument("folders FOLDER", "check these folders instead", nargs="*", type=Path), JSON
        ),
        Action("add", _add, "copy a skill into your folder of skills; nothing of it is run").takes(
            Argument("source SOURCE", "a folder, a git URL, or owner/repo/folder for GitHub"),
            Argument("--ref REF", "branch, tag or commit of a repository", default=""),
            flag("--all", "add every skill in that place"),
            flag("--force", "replace a skill of the same name"),
        ),
        Action("remove", _remove, "delete skills of your folder").takes(
            Argument("names NAME", "the skill, as 'hermes skills list' shows it", nargs="+")
        ),
    ),
)
