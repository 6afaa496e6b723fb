"""Keys of a git configuration that run code, and putting them back to what they were."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hermes.base.programs import find_program
from hermes.policy.files.git_keys import runs_code
from hermes.tools.sandbox.workspace.repositories import own_folder

_GIT_SECONDS = 20.0

#: Stands for all settings of a file, where this machine has no git that can be trusted to read them.
_ANY = "settings"

_WORKING_TREE = "core.worktree"

CodeKeys = dict[str, list[str]]


def code_keys(configuration: bytes) -> CodeKeys | None:
    """The settings of a configuration file that run code, with their values; None when git cannot read it."""
    if not configuration:
        return {}
    if _program() is None:  # what the settings do is not known, so a change of any of them counts
        return {_ANY: [configuration.decode("utf-8", "surrogateescape")]}
    listed = _git(["--file", "-", "--no-includes", "--null", "--list"], configuration)
    if listed is None:
        return None
    found: CodeKeys = {}
    for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
        key, _, value = entry.partition("\n")
        if key and runs_code(key, value):
            found.setdefault(key, []).append(value)
    return found


def changed_keys(file: str, before: CodeKeys, after: CodeKeys) -> list[str]:
    """The keys that differ, without the working tree that git itself sets and removes for a submodule."""
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    if _WORKING_TREE in changed and _is_of_submodule(file, after.get(_WORKING_TREE, ())):
        changed.remove(_WORKING_TREE)
    return changed


def restore_keys(file: str, changed: Sequence[str], before: CodeKeys, after: CodeKeys) -> None:
    """Give these keys the values they had, and leave all others alone."""
    for key in changed:
        if key in after:
            _git(["--file", file, "--unset-all", key])
        for value in before.get(key, ()):
            _git(["--file", file, "--add", key, value])


def _is_of_submodule(configuration: str, trees: Sequence[str]) -> bool:
    """Whether this is the configuration of a submodule, and the working trees it names have that one."""
    folder = os.path.realpath(os.path.dirname(configuration))
    return "/modules/" in folder and all(own_folder(os.path.join(folder, tree)) == folder for tree in trees)


def _program() -> str | None:
    return find_program("git", system_first=True)


def _git(arguments: Sequence[str], data: bytes = b"") -> bytes | None:
    """What ``git config`` printed; None when it failed. It runs outside of any repository and runs no code itself."""
    import subprocess

    program = _program()
    if program is None:
        return None
    environment = {"PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    try:
        done = subprocess.run(
            [program, "config", *arguments],
            input=data,
            capture_output=True,
            cwd="/",
            env=environment,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
