"""Sandbox profile: the files and the network that a command may reach."""

# Paths are strings here: they come and go as strings, and Path is slow.

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

#: ``read-only``: no file can be written but in the private temporary folder. ``workspace``: the workspace is writable.
SandboxMode = Literal["read-only", "workspace"]

#: Below a user's home: what holds keys, tokens, passwords or cookies.
CREDENTIAL_PATHS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".oci", ".config/gcloud", ".config/doctl", ".config/hcloud"),
    *(".docker/config.json", ".config/containers/auth.json", ".netrc", ".git-credentials", ".config/git/credentials"),
    *(".config/gh", ".config/hub", ".config/glab-cli", ".pypirc", ".npmrc", ".yarnrc.yml", ".cargo/credentials"),
    *(".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties", ".pgpass"),
    *(".my.cnf", ".mylogin.cnf", ".vault-token", ".terraform.d/credentials.tfrc.json", ".config/rclone", ".s3cfg"),
    *(".local/share/keyrings", ".password-store", ".config/op", ".config/sops", ".config/age"),
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", "Library/Keychains"),
)

#: Below a user's home: what a shell or a login runs.
START_FILES = (
    *(
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
    ),
    *(".config/fish", ".config/autostart", ".config/systemd", ".config/environment.d", ".xprofile", ".xsession"),
    *(".pam_environment", ".gitconfig", ".config/git", ".vimrc", ".config/nvim", ".tmux.conf", ".local/bin"),
    *(".pythonrc", ".config/pip", ".local/lib"),
)

#: Inside a project: what an editor or a tool runs by itself.
AUTO_RUN_FILES = (".hermes", ".vscode/tasks.json", ".vscode/settings.json", ".idea/runConfigurations", ".envrc")

#: How far below the workspace repositories are looked for, and how many folders are visited for it.
_REPOSITORY_DEPTH = 4
_MOST_FOLDERS = 2_000
_NEVER_SEARCHED = frozenset({"node_modules", ".venv", "venv", "__pycache__", ".tox", ".git", ".cache"})


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """What a command may reach. Every path is absolute and resolved; everything else can be read, not written."""

    mode: SandboxMode
    #: The folder that the command works in and, in mode ``workspace``, may change.
    workspace: str
    #: Files and folders that the command cannot see.
    hidden: tuple[str, ...] = ()
    #: Files and folders that stay read-only although they lie in a writable folder.
    protected: tuple[str, ...] = ()
    #: Folders that may not be renamed or replaced, although their content may change.
    pinned: tuple[str, ...] = ()
    #: More folders that may be changed in mode ``workspace``.
    writable: tuple[str, ...] = ()
    network: bool = False


def make_profile(
    mode: SandboxMode,
    workspace: str,
    *,
    home: str,
    secrets: Iterable[str] = (),
    writable: Iterable[str] = (),
    network: bool = False,
) -> SandboxProfile:
    """The profile for commands in ``workspace`` of the user whose home folder is ``home``.

    ``secrets`` are further paths to hide: the home of Hermes first of all. A path is hidden even when it lies in the
    workspace, unless the workspace lies in it: then everything else in it is hidden.
    """
    workspace, home = os.path.realpath(workspace), os.path.realpath(home)
    hidden = [os.path.realpath(path) for path in secrets]
    hidden += [os.path.join(home, name) for name in CREDENTIAL_PATHS]
    repositories = list(find_repositories(workspace))
    common = [folder for repository in repositories for folder in git_folders(repository)]
    protected = [os.path.join(folder, "hooks") for folder in common]
    protected += [os.path.join(folder, name) for folder in (workspace, *repositories) for name in AUTO_RUN_FILES]
    protected += [os.path.join(home, name) for name in START_FILES]
    roots = [workspace, *(os.path.realpath(path) for path in writable), *common]
    return SandboxProfile(
        mode=mode,
        workspace=workspace,
        hidden=tuple(dict.fromkeys(path for path in hidden if os.path.lexists(path))),
        protected=tuple(dict.fromkeys(path for path in protected if any(is_inside(path, root) for root in roots))),
        pinned=tuple(dict.fromkeys(common)),
        writable=tuple(dict.fromkeys(root for root in roots[1:] if not is_inside(root, workspace))),
        network=network,
    )


def is_inside(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies below it. Both are absolute and resolved."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def find_repositories(workspace: str) -> Iterator[str]:
    """The working trees of git repositories that ``workspace`` is part of or contains, a bounded search."""
    folder = workspace
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):
            yield folder
            break
        parent = os.path.dirname(folder)
        if parent == folder:
            break
        folder = parent
    waiting, visited = [(workspace, 0)], 0
    while waiting and visited < _MOST_FOLDERS:
        folder, depth = waiting.pop(0)
        visited += 1
        try:
            entries = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        if folder != workspace and os.path.lexists(os.path.join(folder, ".git")):
            yield folder
        if depth < _REPOSITORY_DEPTH:
            waiting += [(entry.path, depth + 1) for entry in entries if entry.name not in _NEVER_SEARCHED]


def git_folders(repository: str) -> list[str]:
    """The folders that hold a repository's data: one, or for a worktree or submodule its own and the common one."""
    found = os.path.join(repository, ".git")
    if os.path.isdir(found):
        return [os.path.realpath(found)]
    own = _pointer(found, "gitdir:", repository)
    if own is None or not os.path.isdir(own):
        return []
    common = _pointer(os.path.join(own, "commondir"), "", own)
    return [own] if common is None or not os.path.isdir(common) else [own, common]


def _pointer(file: str, prefix: str, base: str) -> str | None:
    """The path that a small file of git names."""
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as stream:
            text = stream.read(4096).strip()
    except OSError:
        return None
    if not text.startswith(prefix):
        return None
    return os.path.realpath(os.path.join(base, text.removeprefix(prefix).strip()))
