"""Sandbox profile: the files and the network that a command may reach."""

# Paths are strings here: they come and go as strings, and Path is slow.

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from hermes.policy.files.code import HOME_FILES, LOGIN_FILES, PROJECT_FILES
from hermes.policy.files.credentials import stores_of
from hermes.tools.sandbox.workspace.repositories import HooksFolders, git_folders, hooks_of, own_folder, working_trees
from hermes.tools.sandbox.workspace.tree import WorkspaceTree, workspace_tree

#: ``read-only``: no file can be written but in the private temporary folder. ``workspace``: the workspace is writable.
SandboxMode = Literal["read-only", "workspace"]

#: Below a user's home: sockets of services that would act outside of the sandbox, or the folders they are in.
SOCKET_PATHS = tuple(
    (
        ".docker/run .docker/desktop .colima .rd/docker.sock .orbstack/run .lima .1password "
        ".local/share/containers/podman/machine .config/containers/podman/machine .minikube/machines "
        ".bitwarden-ssh-agent.sock"
    ).split()
)


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """What a command may reach. Every path is absolute and resolved; everything else can be read, not written."""

    mode: SandboxMode
    #: The folder that the command works in and, in mode ``workspace``, may change.
    workspace: str
    #: Files and folders that the command cannot see. Those of ``make_profile`` may be missing yet, or be links.
    hidden: tuple[str, ...] = ()
    #: Files and folders that stay read-only although they lie in a writable folder.
    protected: tuple[str, ...] = ()
    #: Folders that may not be renamed or replaced, although their content may change.
    pinned: tuple[str, ...] = ()
    #: More folders that may be changed in mode ``workspace``.
    writable: tuple[str, ...] = ()
    #: The caches of package managers for this workspace, which may lie in a hidden folder.
    caches: tuple[str, ...] = ()
    #: Files and folders that stay readable although they lie in a hidden folder.
    shown: tuple[str, ...] = ()
    network: bool = False
    #: Home folders whose sockets are hidden: those right in it and in its hidden folders, where programs keep theirs.
    homes: tuple[str, ...] = ()

    def roots(self) -> tuple[str, ...]:
        """The folders that may be changed."""
        return (self.workspace, *self.writable, *self.caches) if self.mode == "workspace" else ()

    def hidden_now(self) -> list[str]:
        """Those of the hidden files that are there, a link without a target too."""
        missing = set[str]().union(*[_missing_in(home, self.hidden) for home in self.homes])
        return [path for path in self.hidden if path not in missing and os.path.lexists(path)]

    def as_of_now(self) -> SandboxProfile:
        """The profile with what is there now of the hidden files: a key may have been made since the last command."""
        # A link to a folder elsewhere hides nothing by itself, so the folder is hidden.
        present = [os.path.realpath(path) for path in self.hidden_now()]
        for home in self.homes:
            given = (*self.shown, *(root for root in self.roots() if not is_inside(home, root)))
            sockets = (path for path in _sockets_in(home) if not any(is_inside(path, one) for one in given))
            present += [path for path in sockets if not any(is_inside(path, one) for one in present)]
        return replace(self, hidden=tuple(dict.fromkeys(present)))

    def identities(self) -> tuple[tuple[int, int], ...]:
        """Device and number of every file that it names, (0, 0) for one that is not there."""
        paths = (*self.roots(), *self.hidden, *self.protected, *self.pinned, *self.shown)
        return tuple(map(_identity, paths))


def _missing_in(home: str, paths: tuple[str, ...]) -> list[str]:
    """Paths below a home folder of which the first folder is not there. One look finds most of a long list."""
    try:
        with os.scandir(home) as entries:
            names = {entry.name for entry in entries}
    except OSError:
        return []
    return [path for name, below in _by_first_name(home, paths).items() if name not in names for path in below]


@lru_cache(maxsize=64)
def _by_first_name(home: str, paths: tuple[str, ...]) -> dict[str, list[str]]:
    """The paths below a folder, by the name in that folder that leads to them."""
    found: dict[str, list[str]] = {}
    for path in paths:
        if path.startswith(f"{home}/"):
            found.setdefault(path[len(home) + 1 :].partition("/")[0], []).append(path)
    return found


def _sockets_in(home: str, *, is_top: bool = True) -> Iterator[str]:
    """The sockets in a home folder and in the hidden folders of programs in it."""
    with suppress(OSError), os.scandir(home) as entries:
        for entry in entries:
            if is_top and entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield from _sockets_in(entry.path, is_top=False)
            elif not entry.is_dir() and not entry.is_file() and is_socket(entry.path):
                yield os.path.realpath(entry.path)


def is_socket(path: str) -> bool:
    """Whether a path leads to a socket."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.lstat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def make_profile(
    mode: SandboxMode,
    workspace: str,
    *,
    home: str,
    secrets: Iterable[str] = (),
    writable: Iterable[str] = (),
    caches: tuple[str, ...] = (),
    shown: Iterable[str] = (),
    network: bool = False,
    tree: WorkspaceTree | None = None,
    environ: Mapping[str, str] | None = None,
    passed: Collection[str] = (),
) -> SandboxProfile:
    """The profile for commands in ``workspace`` of the user whose home folder is ``home``.

    ``secrets`` are further paths to hide: the home of Hermes first of all. A path is hidden even when it lies in the
    workspace, unless the workspace lies in it: then everything else in it is hidden. ``tree`` is that of the workspace,
    where it is known already. What ``environ`` names is hidden, too, unless the owner ``passed`` the variable.
    """
    workspace, home, writable = os.path.realpath(workspace), os.path.realpath(home), list(writable)
    given = [os.path.realpath(path) for path in filter(is_socket, writable)]
    hidden = [
        *(path for path in map(os.path.abspath, secrets) if os.path.realpath(path) not in given),
        *(path for path in stores_of(home, environ or {}, passed) if not is_inside(home, os.path.realpath(path))),
        *(os.path.join(home, name) for name in SOCKET_PATHS),
    ]
    trees = working_trees(tree or workspace_tree(workspace)) if mode == "workspace" else []
    common = [folder for one in trees for folder in git_folders(one)]
    roots = [workspace, *(os.path.realpath(path) for path in writable), *common]
    protected = [path for path in _code_files(workspace, trees, home) if any(is_inside(path, root) for root in roots)]
    pinned = [*common, *map(os.path.dirname, protected)]
    return SandboxProfile(
        mode=mode,
        workspace=workspace,
        hidden=tuple(dict.fromkeys(hidden)),
        protected=tuple(dict.fromkeys(protected)),
        pinned=tuple(dict.fromkeys(folder for folder in pinned if folder not in (workspace, *trees))),
        writable=tuple(dict.fromkeys(root for root in roots[1:] if not is_inside(root, workspace))),
        caches=caches,
        shown=tuple(os.path.realpath(path) for path in (*shown, *given)),
        network=network,
        homes=(home,),
    )


def _code_files(workspace: str, trees: Sequence[str], home: str) -> Iterator[str]:
    """Files that run code and are nobody's ordinary work, with those that links lead to."""
    hooks = HooksFolders()
    for tree in trees:
        pointer, own = os.path.join(tree, ".git"), own_folder(tree)
        if os.path.isfile(pointer):
            yield pointer  # of a worktree or submodule; it says where its repository is
        if own is not None:
            yield from hooks_of(hooks.of(own, tree))
    for folder in dict.fromkeys((workspace, *trees)):
        for files in PROJECT_FILES:
            if files.is_read_only:
                yield from (os.path.join(folder, name.rstrip("/")) for name in files.names)
    for name in (*LOGIN_FILES, *HOME_FILES):
        path = os.path.join(home, name.rstrip("/"))
        yield path
        if os.path.islink(path):
            yield os.path.realpath(path)


#: Folders of a home folder that hold more than programs.
_MIXED = (".local", ".config", ".cache")
_OF_USERS = (
    ".local/bin",
    ".local/lib",
    ".local/share/uv",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/mise",
)
#: Managers of versions, whose programs need the tree that they are in, and what else those need.
_MANAGERS = {
    **dict.fromkeys(
        ".pyenv .rbenv .nodenv .goenv .jenv .nvm .asdf .volta .sdkman .rye .ghcup .opam .juliaup".split(), ()
    ),
    **dict.fromkeys((".bun", ".npm-global"), ()),
    ".cargo": (".rustup",),
    ".rustup": (".cargo",),
}
#: What the folder of an environment has, beside its ``bin``, which needs the rest of it.
_MARKS_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
#: Git needs the name and address of who commits.
_OF_GIT = (".gitconfig", ".config/git")


def programs_in(home: str, search_path: str) -> list[str]:
    """The parts of a home folder that programs live in: what the search path names, and where Hermes itself is."""
    found = [os.path.join(home, name) for name in _OF_GIT]
    for folder in (*search_path.split(os.pathsep), sys.prefix, sys.base_prefix):
        for path in dict.fromkeys((os.path.abspath(folder), os.path.realpath(folder))) if folder else ():
            if path != home and is_inside(path, home):
                found += _needed_for(path, home)
    return list(dict.fromkeys(path for path in found if os.path.exists(path)))


def _needed_for(folder: str, home: str) -> list[str]:
    """What the programs in a folder need of a home: the folder itself, and more only where that is known."""
    first = folder[len(home) :].strip("/").partition("/")[0]
    if first in _MIXED:
        return [folder, *(os.path.join(home, name) for name in _OF_USERS)]
    if first in _MANAGERS:
        return [os.path.join(home, name) for name in (first, *_MANAGERS[first])]
    above = os.path.dirname(folder)
    if above != home and any(os.path.exists(os.path.join(above, mark)) for mark in _MARKS_OF_ENVIRONMENTS):
        return [above]
    return [folder]


def is_inside(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies below it. Both are absolute and resolved."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
