"""Git repositories: the folders that hold their data, and where git takes their hooks from."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from hermes.base.programs import find_program
from hermes.tools.sandbox.workspace.tree import WorkspaceTree, is_git_folder

#: A configuration with one of these words may name another folder for hooks.
_MAY_MOVE_HOOKS = (b"hookspath", b"[include")
_LARGEST = 262_144


def working_trees(tree: WorkspaceTree) -> list[str]:
    """The working trees that a workspace is part of or contains, the one around it first."""
    return _trees(tree.root, tree.find())


def _trees(workspace: str, marked: Mapping[str, frozenset[str]]) -> list[str]:
    found = dict.fromkeys(_around(workspace))
    found.update(dict.fromkeys(folder for folder, names in marked.items() if ".git" in names))
    return list(found)


def _around(workspace: str) -> Iterable[str]:
    folder = workspace
    while (parent := os.path.dirname(folder)) != folder:
        if os.path.lexists(os.path.join(folder, ".git")):
            yield folder
            return
        folder = parent


def used_folders(workspace: str, marked: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """The folders that git would use as repositories, with the folder that their hooks run in.

    Whether they belong to each other does not matter here: git does not ask, either.
    """
    found: dict[str, str] = {}
    for tree in _trees(workspace, marked):
        own = own_folder(tree)
        if own is not None:
            found[own] = tree
    for folder, names in marked.items():
        if is_git_folder(names):
            found.setdefault(folder, folder)
    for folder, tree in list(found.items()):
        found.setdefault(common_folder(folder), tree)
    return found


def own_folder(tree: str) -> str | None:
    """The folder that git uses for a working tree, by the name ``.git`` in it: a folder, a link or a file."""
    place = os.path.join(tree, ".git")
    if os.path.isdir(place):
        return os.path.realpath(place)
    own = _pointer(place, "gitdir:", tree)
    return own if own is not None and os.path.isdir(own) else None


def common_folder(own: str) -> str:
    """The folder with configuration and hooks: of a worktree it is another one."""
    return _pointer(os.path.join(own, "commondir"), "", own) or own


def is_worktree(own: str) -> bool:
    """Whether a folder of git is that of a worktree which git itself made."""
    return os.path.dirname(own) == os.path.join(common_folder(own), "worktrees")


def git_folders(tree: str) -> list[str]:
    """The folders that hold a repository's data: one, or for a worktree or submodule its own and the common one.

    Anyone can write a ``.git`` file that names any folder. It counts only when that folder names the working tree too.
    """
    found = os.path.join(tree, ".git")
    if os.path.isdir(found) and not os.path.islink(found):
        return [os.path.realpath(found)]
    own = _pointer(found, "gitdir:", tree)
    if own is None or not os.path.isfile(os.path.join(own, "HEAD")):
        return []
    if _pointer(os.path.join(own, "gitdir"), "", own) == os.path.realpath(found):
        return [own, common_folder(own)] if is_worktree(own) else []
    return [own] if _work_tree(own) == os.path.realpath(tree) else []


class HooksFolders:
    """Where git takes hooks from. It is asked only when a configuration may say that they are elsewhere."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Sequence[bytes | None], str]] = {}

    def of(self, own: str, tree: str) -> str:
        """The folder with the hooks of a repository; ``tree`` is the folder that they run in."""
        common = common_folder(own)
        files = (f"{common}/config", f"{own}/config.worktree", *_user_configurations())
        contents = [read_regular(file, _LARGEST) for file in files]
        if not any(word in content.lower() for content in contents if content for word in _MAY_MOVE_HOOKS):
            return f"{common}/hooks"
        known = self._known.get(own)
        if known is None or known[0] != contents:
            known = self._known[own] = contents, _asked(own, tree) or f"{common}/hooks"
        return known[1]

    def has(self, path: str) -> bool:
        """Whether a file is a hook of the repository around it. The path is absolute and resolved."""
        for tree in _around(os.path.dirname(path)):
            own = own_folder(tree)
            for place in () if own is None else hooks_of(self.of(own, tree)):
                if path == place or path.startswith(f"{place}/"):
                    return True
        return False


def hooks_of(folder: str) -> Iterator[str]:
    """A folder of hooks, and the files and folders elsewhere that links make a part of it."""
    folder = os.path.join(os.path.realpath(os.path.dirname(folder)), os.path.basename(folder))
    yield folder
    if os.path.islink(folder):
        yield os.path.realpath(folder)
    with suppress(OSError), os.scandir(folder) as entries:
        yield from (os.path.realpath(entry.path) for entry in entries if entry.is_symlink())


def _user_configurations() -> list[str]:
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return [os.path.expanduser("~/.gitconfig"), os.path.join(folder, "git", "config"), "/etc/gitconfig"]


def _asked(own: str, tree: str) -> str | None:
    """What git says. It reads configurations for that, and runs nothing."""
    import subprocess

    program = find_program("git", system_first=True)
    if program is None:
        return None
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            [program, "rev-parse", "--git-path", "hooks"],
            capture_output=True,
            cwd=tree,
            env={**variables, "GIT_DIR": own},
            timeout=20.0,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    said = os.fsdecode(done.stdout.rstrip(b"\n"))
    return os.path.abspath(os.path.join(tree, said)) if done.returncode == 0 and said else None


def _work_tree(own: str) -> str | None:
    """The working tree that the configuration of a submodule names."""
    lines = _text(os.path.join(own, "config")).splitlines()
    values = [value.strip() for name, _, value in (line.partition("=") for line in lines) if name.strip() == "worktree"]
    return os.path.realpath(os.path.join(own, values[-1])) if values else None


def _pointer(file: str, prefix: str, base: str) -> str | None:
    """The path that a small file of git names."""
    text = _text(file).strip()
    if not text or "\0" in text or not text.startswith(prefix):
        return None
    return os.path.realpath(os.path.join(base, text.removeprefix(prefix).strip()))


def _text(file: str) -> str:
    return os.fsdecode(read_regular(file, 65_536) or b"")


def read_regular(path: str, limit: int) -> bytes | None:
    """The content of a regular file, links followed; None when it is something else, or larger than ``limit``.

    Commands choose what lies at these paths: a named pipe must not hold up the one who reads it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(limit)
    finally:
        os.close(descriptor)
