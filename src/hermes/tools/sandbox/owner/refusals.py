"""Refusals of the sandbox, told from what a command that failed printed: which path it was, and what setting gives it.

The kernel refuses without a word to Hermes, so this is a guess, and the sentence says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from hermes.tools.sandbox.profile import SandboxProfile, is_inside, is_socket

#: What programs print when the file system refused something.
_FILES_REFUSED = re.compile(
    r"read-only file system|permission denied|operation not permitted|\bEROFS\b|\bEACCES\b|\bEPERM\b"
    r"|device or resource busy|can't chdir|unable to create temporary object directory",
    re.IGNORECASE,
)
#: ... when a login was missing, and what ssh and its agent say.
_LOGIN_REFUSED = re.compile(
    r"auth|log ?in|credential|denied|forbidden|could not read username|\b40[13]\b|token|secret key", re.IGNORECASE
)
_SSH_REFUSED = re.compile(r"\(publickey|host key verification failed|authentication agent", re.IGNORECASE)

#: A path between quotes, which may hold blanks, or a bare one.
_PATH = re.compile(
    r"['\"\u2018](~?/[^'\"\u2019\n]+)['\"\u2019]"
    r"|(?<![\w.~/-])(~?/[^\s'\"\u2018\u2019:;,()<>|]+)"
    r"|['\"\u2018]([^'\"\u2019\n/]+)['\"\u2019]"
)

#: Programs whose login is a file below the home that commands do not see.
_LOGINS = {
    "gh": ".config/gh",
    "glab": ".config/glab-cli",
    "aws": ".aws",
    "az": ".azure",
    "gcloud": ".config/gcloud",
    "kubectl": ".kube",
    "helm": ".kube",
    "docker": ".docker/config.json",
    "gpg": ".gnupg",
    "npm": ".npmrc",
    "twine": ".pypirc",
    "cargo": ".cargo/credentials.toml",
    "git": ".git-credentials",
    "psql": ".pgpass",
    "mysql": ".my.cnf",
    "rclone": ".config/rclone",
    "vault": ".vault-token",
    "fly": ".fly/config.yml",
}

#: ``/bin/bash: line 1: `` is who says it, and not what it is about.
_SPEAKER = re.compile(r"^\S+: (?:line \d+: )?(?=.*: )")
#: A relative path in the place where shells name it.
_RELATIVE = re.compile(r"(?:^|: )(\.{0,2}[^\s:/'\"][^\s:'\"]*): (?=[A-Z])")

#: Folders of the system, which no setting should give to commands.
_OF_SYSTEM = tuple("/bin /boot /dev /etc /lib /lib32 /lib64 /opt /proc /run /sbin /sys /usr /var/lib".split())

_Kind = Literal["hidden", "private", "unchangeable"]

#: A long output says at its end why it failed.
_MOST_CHARS = 20_000
_MOST_PATHS = 200
#: Paths of one kind that are named.
_NAMED = 3


class FailedCommand(NamedTuple):
    """A command that failed."""

    command: str
    output: str
    cwd: str


class Refusals:
    """Explains failures by the limits of one sandbox."""

    def __init__(self, profile: SandboxProfile, passed: Sequence[str], covered: Callable[[str], bool]) -> None:
        """``passed`` are variables that the owner passed on. ``covered``: whether a path is another in the sandbox."""
        self._profile = profile
        self._passed = passed
        self._covered = covered
        self._home = os.path.realpath(os.path.expanduser("~"))

    def limits(self, failure: FailedCommand) -> list[str]:
        """The limits that may be why it failed, each as part of a sentence."""
        failure = failure._replace(output=failure.output[-_MOST_CHARS:])
        return list(dict.fromkeys((*self._files(failure), *self._logins(failure))))

    # -- files --------------------------------------------------------------------------------------------------

    def _files(self, failure: FailedCommand) -> Iterator[str]:
        named: dict[_Kind, list[str]] = {"hidden": [], "private": [], "unchangeable": []}
        profile = self._profile.as_of_now()
        lines = failure.output.splitlines()
        refused = [line for line in lines if _FILES_REFUSED.search(line)]
        # git says that it was refused in one line, and where in another.
        telling = refused if any(map(_PATH.search, refused)) else lines if refused else []
        for line in lines:
            for path in _paths(line, failure.cwd):
                kind = self._kind(path, profile, was_refused=line in telling)
                if kind is not None and len(named[kind]) < _MOST_PATHS:
                    named[kind].append(path)
        sockets = [path for path in (*named["hidden"], *named["private"]) if is_socket(path)]
        hidden, private = ([path for path in named[kind] if path not in sockets] for kind in ("hidden", "private"))
        yield from self._about_unchangeable(named["unchangeable"])
        if hidden:
            yield f"{_named(hidden)} is hidden from commands"
        if private:
            yield f"{_named(private)} exists only outside: commands have a /tmp of their own (use the workspace)"
        if sockets:
            yield f"{_named(sockets)} is hidden from commands ({_setting('sandbox_write', sockets[:1])} opens it)"
        if refused and not any(named.values()):
            yield self._what_can_be_changed()

    def _kind(self, path: str, profile: SandboxProfile, *, was_refused: bool) -> _Kind | None:
        """Why a path that the output names may be missing in the sandbox, or cannot be changed."""
        real = os.path.realpath(path)
        is_shown = any(is_inside(real, shown) for shown in (*profile.shown, *profile.caches))
        if not is_shown and any(is_inside(real, secret) for secret in profile.hidden):
            return "hidden"
        if self._covered(real) and os.path.lexists(real):
            return "private"
        return "unchangeable" if was_refused and not self._can_change(real) else None

    def _can_change(self, real: str) -> bool:
        profile = self._profile
        is_protected = any(is_inside(real, path) for path in profile.protected)
        return not is_protected and any(is_inside(real, root) for root in profile.roots())

    def _about_unchangeable(self, paths: list[str]) -> Iterator[str]:
        profile = self._profile
        real = {path: os.path.realpath(path) for path in paths}
        runs_code = [path for path in paths if any(is_inside(real[path], one) for one in profile.protected)]
        if runs_code:
            yield f"{_named(runs_code)} runs code by itself and cannot be changed"
        others = [path for path in paths if path not in runs_code]
        if not others:
            return
        if profile.mode == "read-only":
            yield f"{_named(others)} cannot be changed (terminal.sandbox: read-only)"
            return
        folder = real[others[0]] if os.path.isdir(real[others[0]]) else os.path.dirname(real[others[0]])
        # All of the home folder would be too much to give.
        is_too_much = is_inside(self._home, folder) or any(is_inside(folder, path) for path in _OF_SYSTEM)
        advice = "" if is_too_much else f" ({_setting('sandbox_write', [folder])} gives it)"
        yield f"{_named(others)} cannot be changed{advice}. {self._what_can_be_changed()}"

    def _what_can_be_changed(self) -> str:
        if self._profile.mode == "read-only":
            return "Only TMPDIR can be changed (terminal.sandbox: read-only)"
        folders = ", ".join(dict.fromkeys((self._profile.workspace, *self._profile.writable)))
        caches = ", package caches" if self._profile.caches else ""
        return f"Only {folders}{caches} and TMPDIR can be changed, and in them no credentials or files that run code"

    # -- logins ---------------------------------------------------------------------------------------

    def _logins(self, failure: FailedCommand) -> Iterator[str]:
        if _SSH_REFUSED.search(failure.output):
            if "SSH_AUTH_SOCK" not in self._passed:
                setting = _setting("env_passthrough", ["SSH_AUTH_SOCK"])
                yield f"~/.ssh is hidden from commands ({setting} gives them your agent)"
            return
        if not _LOGIN_REFUSED.search(failure.output):
            return
        words = frozenset(re.findall(r"[\w-]+", failure.command[:_MOST_CHARS]))
        for program in words.intersection(_LOGINS):
            path = os.path.join(self._home, _LOGINS[program])
            if path in self._profile.hidden and os.path.exists(path):
                yield (
                    f"~/{_LOGINS[program]}, the login of {program}, is hidden from commands "
                    "(terminal.env_passthrough gives a token in a variable)"
                )


def _paths(line: str, cwd: str) -> Iterator[str]:
    line = _SPEAKER.sub("", line)
    for quoted, bare, name in _PATH.findall(line):
        path = os.path.expanduser(quoted or bare.rstrip(".") or name)
        yield os.path.normpath(os.path.join(cwd, path if name else f"/{path.lstrip('/')}"))
    for name in _RELATIVE.findall(line):
        yield os.path.normpath(os.path.join(cwd, name))


def _named(names: Sequence[str]) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - _NAMED} more" if len(unique) > _NAMED else ""
    return ", ".join(unique[:_NAMED]) + more


def _setting(name: str, values: Sequence[str]) -> str:
    return f"hermes config set terminal.{name} '[{', '.join(values)}]'"
