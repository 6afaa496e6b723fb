"""``hermes trust``: the project folders whose files may grant tools, choose a model and run commands."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path

from hermes.base.config.files import hermes_home
from hermes.base.config.trust import FolderTrust, project_root
from hermes.base.errors import HermesError
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import plain


def _list(_args: argparse.Namespace, trust: FolderTrust) -> Report:
    decisions = trust.decisions()
    return Report(
        decisions,
        rows=[("trusted" if one.is_trusted else "refused", one.folder, f"since {one.decided_at}") for one in decisions],
        empty="No folder is trusted. A prompt asks when a project wants more than to give text; 'hermes trust add'.",
    )


def _add(args: argparse.Namespace, trust: FolderTrust) -> None:
    print(plain(f"trusted: {trust.decide(_existing(args.folder), is_trusted=True).folder}"))


def _refuse(args: argparse.Namespace, trust: FolderTrust) -> None:
    print(plain(f"not trusted: {trust.decide(_existing(args.folder), is_trusted=False).folder}"))


def _remove(args: argparse.Namespace, trust: FolderTrust) -> None:
    folder = _folder(args.folder)
    if trust.forget(folder) is None:
        raise HermesError(f"there is no decision about {folder}; 'hermes trust list' shows them")
    print(plain(f"no decision any more: {folder}"))


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


_FOLDER = Argument(
    "folder FOLDER", "the project's folder; without one, the project of the working folder", nargs="?", default=""
)

COMMAND = CommandSpec(
    default="list",
    opened=lambda _args: nullcontext(FolderTrust(hermes_home())),
    actions=(
        Action("list", _list, "list the decisions about folders (the default)").takes(JSON),
        Action("add", _add, "trust a project folder").takes(_FOLDER),
        Action("refuse", _refuse, "do not trust a project folder, and do not ask about it again").takes(_FOLDER),
        Action("remove", _remove, "remove the decision about a folder; the next prompt there asks again").takes(
            _FOLDER
        ),
    ),
)
