"""``hermes trust``: the project folders whose files may grant tools, choose a model and run commands."""

from __future__ import annotations

import argparse
from pathlib import Path

from hermes.cli.terminal import plain, print_json
from hermes.config.files import hermes_home
from hermes.config.trust import FolderTrust, project_root
from hermes.errors import HermesError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.set_defaults(action=_list, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    listed = actions.add_parser("list", help="list the decisions about folders (the default)")
    listed.set_defaults(action=_list)
    listed.add_argument("--json", action="store_true", help="print one JSON document")
    for name, action, summary in (
        ("add", _add, "trust a project folder"),
        ("refuse", _refuse, "do not trust a project folder, and do not ask about it again"),
        ("remove", _remove, "remove the decision about a folder; the next prompt there asks again"),
    ):
        made = actions.add_parser(name, help=summary, description=summary)
        made.set_defaults(action=action)
        made.add_argument(
            "folder",
            metavar="FOLDER",
            nargs="?",
            default="",
            help="the project's folder; without one, the project of the working folder",
        )


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    return args.action(args, FolderTrust(hermes_home()))


def _list(args: argparse.Namespace, trust: FolderTrust) -> int:
    decisions = trust.decisions()
    if args.json:
        print_json(decisions)
    elif not decisions:
        print("No folder is trusted. A prompt asks when a project wants more than to give text; 'hermes trust add'.")
    else:
        for one in decisions:
            print(plain(f"{'trusted' if one.is_trusted else 'refused'}  {one.folder}  since {one.decided_at}"))
    return 0


def _add(args: argparse.Namespace, trust: FolderTrust) -> int:
    print(plain(f"trusted: {trust.decide(_existing(args.folder), is_trusted=True).folder}"))
    return 0


def _refuse(args: argparse.Namespace, trust: FolderTrust) -> int:
    print(plain(f"not trusted: {trust.decide(_existing(args.folder), is_trusted=False).folder}"))
    return 0


def _remove(args: argparse.Namespace, trust: FolderTrust) -> int:
    folder = _folder(args.folder)
    if trust.forget(folder) is None:
        raise HermesError(f"there is no decision about {folder}; 'hermes trust list' shows them")
    print(plain(f"no decision any more: {folder}"))
    return 0


def _folder(text: str) -> Path:
    return Path(text).expanduser().absolute() if text else project_root(Path.cwd())


def _existing(text: str) -> Path:
    """The folder that a decision is about. A decision about a folder inside a repository would have no effect."""
    folder = _folder(text)
    if not folder.is_dir():
        raise HermesError(f"{folder} is not a folder; name the folder of a project")
    root = project_root(folder)
    if root != folder:
        raise HermesError(f"{folder} is inside the project {root}; a project is trusted as a whole: name {root}")
    return folder
