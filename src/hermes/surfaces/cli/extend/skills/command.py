"""``hermes skills``: lists, adds, checks and removes skills."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import msgspec

from hermes.base.config import hermes_home, load_config
from hermes.base.errors import HermesError, did_you_mean
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import one_line, plain
from hermes.surfaces.commands.text import plural
from hermes.tools.skills.manifest import SkillManifest, read_manifest
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
    from hermes.base.config import apply_env, load_env_file
    from hermes.base.log import setup_logging
    from hermes.base.sanitize import Redactor
    from hermes.host import Host

    redactor = Redactor()
    setup_logging(home, redactor=redactor)
    apply_env(load_env_file(home))
    with contextlib.redirect_stdout(sys.stderr):  # output of plugins while they load
        host = Host(home, msgspec.structs.replace(config, mcp_servers={}), redactor=redactor)
    with host:
        yield host.runtime.skills


# -- list -----------------------------------------------------------------------------------------------------------


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


# -- check ----------------------------------------------------------------------------------------------------------


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


# -- add, remove ----------------------------------------------------------------------------------------------------


def _add(args: argparse.Namespace, home: Path) -> None:
    from hermes.surfaces.cli.extend.skills.install import add_skills

    added = add_skills(home, args.source, Path.cwd(), os.environ, ref=args.ref, take_all=args.all, force=args.force)
    for skill in added:
        print(f"added {plain(skill.name)}: {one_line(skill.description, _LONGEST_DESCRIPTION)}")
        for remark in skill.remarks:
            print(f"  {plain(remark)}")
    print("A skill is instructions for the agent, and may have scripts: read it before you use it.")


def _remove(args: argparse.Namespace, home: Path) -> None:
    from hermes.surfaces.cli.extend.skills.install import remove_skill

    known = {skill.name: skill for skill in reversed(Skills(home, load_config(home).config.skills).all(Path.cwd()))}
    own = {name: skill for name, skill in known.items() if skill.source == "user"}
    for name in args.names:
        skill = own.get(name) or known.get(name)
        if skill is None:
            raise HermesError(f"there is no skill {name!r}{did_you_mean(name, own)}")
        print(f"removed {plain(str(remove_skill(skill, home)))}")


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
