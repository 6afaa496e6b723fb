"""Sandbox profile: the files and the network that a command may reach."""

# Paths are strings here: they come and go as strings, and Path is slow.

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from hermes.tools.sandbox.repositories import Repositories, git_folders

#: ``read-only``: no file can be written but in the private temporary folder. ``workspace``: the workspace is writable.
SandboxMode = Literal["read-only", "workspace"]

#: Below a user's home: what holds keys, tokens, passwords or cookies.
CREDENTIAL_PATHS = tuple(
    (
        ".ssh .gnupg .aws .azure .kube .oci .config/gcloud .config/doctl .config/hcloud .docker/config.json "
        ".config/containers/auth.json .netrc .git-credentials .config/git/credentials .config/gh .config/hub "
        ".config/glab-cli .pypirc .npmrc .yarnrc.yml .cargo/credentials .cargo/credentials.toml "
        ".gem/credentials .m2/settings.xml .gradle/gradle.properties .pgpass .my.cnf .mylogin.cnf "
        ".vault-token .terraform.d/credentials.tfrc.json .config/rclone .s3cfg .local/share/keyrings "
        ".password-store .config/op .config/sops .config/age .mozilla .config/google-chrome .config/chromium "
        ".config/BraveSoftware .config/microsoft-edge .config/vivaldi .config/opera .thunderbird snap/firefox "
        "snap/chromium snap/thunderbird .var/app/org.mozilla.firefox .var/app/org.chromium.Chromium "
        ".var/app/com.google.Chrome .var/app/com.microsoft.Edge .var/app/org.mozilla.Thunderbird Library/Keychains "
        ".claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json .config/github-copilot "
        ".local/share/opencode/auth.json .cache/huggingface/token .cache/huggingface/stored_tokens "
        ".huggingface/token .fly/config.yml .pulumi/credentials.json .databrickscfg .kaggle .config/kaggle "
        ".composer/auth.json .config/composer/auth.json .local/share/uv/credentials .config/configstore "
        ".config/stripe .config/netlify .local/share/com.vercel.cli .bundle/config .boto"
    ).split()
)

#: Below a user's home: sockets of services that would act outside of the sandbox, or the folders they are in.
SOCKET_PATHS = tuple(
    (
        ".docker/run .docker/desktop .colima .rd/docker.sock .orbstack/run .lima .1password "
        ".local/share/containers/podman/machine .config/containers/podman/machine .minikube/machines"
    ).split()
)

#: Below a user's home: what a shell or a login runs.
START_FILES = tuple(
    (
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .inputrc .zshrc .zshenv "
        ".zprofile .zlogin .zlogout .kshrc .login .cshrc .tcshrc .config/fish .config/autostart "
        ".config/systemd .config/environment.d .xprofile .xsession .pam_environment .gitconfig .config/git "
        ".vimrc .config/nvim .tmux.conf .local/bin .pythonrc .config/pip .local/lib"
    ).split()
)

#: Inside a project: what an editor or a tool runs by itself.
AUTO_RUN_FILES = (".hermes", ".vscode/tasks.json", ".vscode/settings.json", ".idea/runConfigurations", ".envrc")


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
    #: Files and folders that stay readable although they lie in a hidden folder.
    shown: tuple[str, ...] = ()
    network: bool = False

    def roots(self) -> tuple[str, ...]:
        """The folders that may be changed."""
        return (self.workspace, *self.writable) if self.mode == "workspace" else ()

    def as_of_now(self) -> SandboxProfile:
        """The profile with what is there now of the hidden files: a key may have been made since the last command."""
        # A link to a folder elsewhere hides nothing by itself, so the folder is hidden.
        present = (os.path.realpath(path) for path in self.hidden if os.path.lexists(path))
        return replace(self, hidden=tuple(dict.fromkeys(present)))

    def identities(self) -> tuple[tuple[int, int], ...]:
        """Device and number of every file that it names, (0, 0) for one that is not there."""
        paths = (*self.roots(), *self.hidden, *self.protected, *self.pinned, *self.shown)
        return tuple(map(_identity, paths))


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
    shown: Iterable[str] = (),
    network: bool = False,
) -> SandboxProfile:
    """The profile for commands in ``workspace`` of the user whose home folder is ``home``.

    ``secrets`` are further paths to hide: the home of Hermes first of all. A path is hidden even when it lies in the
    workspace, unless the workspace lies in it: then everything else in it is hidden.
    """
    workspace, home = os.path.realpath(workspace), os.path.realpath(home)
    hidden = [
        *map(os.path.abspath, secrets),
        *(os.path.join(home, name) for name in (*CREDENTIAL_PATHS, *SOCKET_PATHS)),
    ]
    repositories = Repositories(workspace).find()
    common = [folder for repository in repositories for folder in git_folders(repository)]
    protected = [os.path.join(folder, "hooks") for folder in common]
    # The file of a worktree or submodule that says where its repository is.
    protected += [file for repository in repositories if os.path.isfile(file := os.path.join(repository, ".git"))]
    protected += [os.path.join(folder, name) for folder in (workspace, *repositories) for name in AUTO_RUN_FILES]
    protected += [os.path.join(home, name) for name in START_FILES]
    roots = [workspace, *(os.path.realpath(path) for path in writable), *common]
    protected = [path for path in protected if any(is_inside(path, root) for root in roots)]
    pinned = [*common, *map(os.path.dirname, protected)]
    return SandboxProfile(
        mode=mode,
        workspace=workspace,
        hidden=tuple(dict.fromkeys(hidden)),
        protected=tuple(dict.fromkeys(protected)),
        pinned=tuple(dict.fromkeys(folder for folder in pinned if folder not in (workspace, *repositories))),
        writable=tuple(dict.fromkeys(root for root in roots[1:] if not is_inside(root, workspace))),
        shown=tuple(os.path.realpath(path) for path in shown),
        network=network,
    )


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
