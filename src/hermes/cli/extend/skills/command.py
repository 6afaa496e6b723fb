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

from hermes.cli.terminal import one_line, plain, print_json
from hermes.commands.text import plural
from hermes.config import hermes_home, load_config
from hermes.errors import HermesError, did_you_mean
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_list, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    listing = actions.add_parser("list", help="list the skills that a session here has (the default)")
    listing.set_defaults(action=_list)
    checking = actions.add_parser("check", help="check skills; exit code 1 when one cannot be used")
    checking.add_argument("folders", metavar="FOLDER", nargs="*", type=Path, help="check these folders instead")
    checking.set_defaults(action=_check)
    for made in (listing, checking):
        made.add_argument("--json", action="store_true", help="print one JSON document")
    adding = actions.add_parser("add", help="copy a skill into your folder of skills; nothing of it is run")
    adding.add_argument("source", metavar="SOURCE", help="a folder, a git URL, or owner/repo/folder for GitHub")
    adding.add_argument("--ref", default="", metavar="REF", help="branch, tag or commit of a repository")
    adding.add_argument("--all", action="store_true", help="add every skill in that place")
    adding.add_argument("--force", action="store_true", help="replace a skill of the same name")
    adding.set_defaults(action=_add)
    removing = actions.add_parser("remove", help="delete skills of your folder")
    removing.add_argument("names", metavar="NAME", nargs="+", help="the skill, as 'hermes skills list' shows it")
    removing.set_defaults(action=_remove)


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    return args.action(args, hermes_home())


@contextlib.contextmanager
def _opened_skills(home: Path) -> Generator[Skills]:
    """The skills. Enabled plugins are loaded, for those that they bring."""
    config = load_config(home).config
    if not config.plugins.enabled:
        yield Skills(home, config.skills)
        return
    from hermes.config import apply_env, load_env_file
    from hermes.host import Host
    from hermes.log import setup_logging
    from hermes.sanitize import Redactor

    redactor = Redactor()
    setup_logging(home, redactor=redactor)
    apply_env(load_env_file(home))
    with contextlib.redirect_stdout(sys.stderr):  # output of plugins while they load
        host = Host(home, msgspec.structs.replace(config, mcp_servers={}), redactor=redactor)
    with host:
        yield host.runtime.skills


# -- list -----------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace, home: Path) -> int:
    cwd = Path.cwd()
    with _opened_skills(home) as skills:
        found = skills.usable(cwd)
        broken = [skill for skill in skills.all(cwd) if skill.problem]
    if args.json:
        print_json([_record(skill) for skill in found])
        return 0
    if not found:
        print("No skills. 'hermes skills add SOURCE' copies one into your folder of skills.")
    width = max((len(skill.name) for skill in found), default=0)
    for skill in found:
        print(f"{plain(skill.name):<{width}}  {skill.source:<7}  {one_line(skill.description, _LONGEST_DESCRIPTION)}")
    if broken:
        print(f"{len(broken)} cannot be used: 'hermes skills check' says why")
    return 0


def _record(skill: SkillManifest) -> dict[str, Any]:
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


def _check(args: argparse.Namespace, home: Path) -> int:
    cwd = Path.cwd()
    if args.folders:
        found = [read_manifest((cwd / folder).resolve(), "user") for folder in args.folders]
    else:
        with _opened_skills(home) as skills:
            found = skills.all(cwd)
    notes = dict(shadowed(found))
    if args.json:
        print_json([{**_record(skill), "shadowed_by": notes.get(skill.folder, "")} for skill in found])
    else:
        for skill in found:
            for line in _problem_lines(skill, notes.get(skill.folder, "")):
                print(line)
        broken = sum(bool(skill.problem) for skill in found)
        print(f"{plural(len(found), 'skill')}, {broken} cannot be used")
    return 1 if any(skill.problem for skill in found) else 0


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
        yield f"broken   {plain(skill.problem)}"
    for remark in skill.remarks:
        yield f"remark   {plain(skill.folder)}: {plain(remark)}"
    if taken_by:
        yield f"unused   {plain(skill.folder)}: {plain(taken_by)} has the same name and comes first"


# -- add, remove ----------------------------------------------------------------------------------------------------


def _add(args: argparse.Namespace, home: Path) -> int:
    from hermes.cli.extend.skills.install import add_skills

    added = add_skills(home, args.source, Path.cwd(), os.environ, ref=args.ref, take_all=args.all, force=args.force)
    for skill in added:
        print(f"added {plain(skill.name)}: {one_line(skill.description, _LONGEST_DESCRIPTION)}")
        for remark in skill.remarks:
            print(f"  {plain(remark)}")
    print("A skill is instructions for the agent, and may have scripts: read it before you use it.")
    return 0


def _remove(args: argparse.Namespace, home: Path) -> int:
    from hermes.cli.extend.skills.install import remove_skill

    known = {skill.name: skill for skill in reversed(Skills(home, load_config(home).config.skills).all(Path.cwd()))}
    own = {name: skill for name, skill in known.items() if skill.source == "user"}
    for name in args.names:
        skill = own.get(name) or known.get(name)
        if skill is None:
            raise HermesError(f"there is no skill {name!r}{did_you_mean(name, own)}")
        print(f"removed {plain(str(remove_skill(skill, home)))}")
    return 0
