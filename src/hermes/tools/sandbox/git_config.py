"""Keys of a git configuration that run code, and putting them back to what they were."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

_GIT_SECONDS = 20.0

#: Keys whose value git runs, or that let another file bring such keys. ``*`` is a name of any kind.
_CODE_KEYS = tuple(
    (
        "core.hookspath core.fsmonitor core.sshcommand core.editor core.pager core.askpass core.gitproxy "
        "core.alternaterefscommand sequence.editor init.templatedir diff.external diff.*.command "
        "diff.*.textconv filter.*.clean filter.*.smudge filter.*.process merge.*.driver credential.helper "
        "credential.*.helper gpg.program gpg.*.program pager.* interactive.difffilter mergetool.*.cmd "
        "difftool.*.cmd browser.*.cmd man.*.cmd guitool.*.cmd instaweb.httpd trailer.*.command trailer.*.cmd "
        "uploadpack.packobjectshook remote.*.uploadpack remote.*.receivepack remote.*.vcs include.path "
        "includeif.*.path protocol.ext.allow protocol.allow hook.*.command gpg.ssh.defaultkeycommand "
        "maintenance.*.schedule tar.*.command"
    ).split()
)
_RUNS_CODE = re.compile("|".join(re.escape(key).replace(r"\*", ".+") for key in _CODE_KEYS), re.DOTALL)
#: Keys that run code when their value begins like this.
_SHELL_VALUES = re.compile(r"alias\..+|submodule\..+\.update", re.DOTALL)

CodeKeys = dict[str, list[str]]


def runs_code(key: str, value: str) -> bool:
    """Whether git may run a program because of this setting."""
    name = key.lower()
    return _RUNS_CODE.fullmatch(name) is not None or (
        _SHELL_VALUES.fullmatch(name) is not None and value.lstrip().startswith("!")
    )


def code_keys(configuration: bytes) -> CodeKeys | None:
    """The settings of a configuration file that run code, with their values; None when git cannot read it."""
    if not configuration:
        return {}
    listed = _git(["--file", "-", "--no-includes", "--null", "--list"], configuration)
    if listed is None:
        return None
    found: CodeKeys = {}
    for entry in listed.decode("utf-8", "surrogateescape").split("\0"):
        key, _, value = entry.partition("\n")
        if key and runs_code(key, value):
            found.setdefault(key, []).append(value)
    return found


def restore_keys(file: str, before: CodeKeys, after: CodeKeys) -> list[str]:
    """Give the keys that differ the values they had, and leave all others alone. Returns the keys."""
    changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    for key in changed:
        if key in after:
            _git(["--file", file, "--unset-all", key])
        for value in before.get(key, ()):
            _git(["--file", file, "--add", key, value])
    return changed


def _git(arguments: Sequence[str], data: bytes = b"") -> bytes | None:
    """What ``git config`` printed; None when it failed. It runs outside of any repository and runs no code itself."""
    import subprocess

    environment = {"PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"}
    try:
        done = subprocess.run(
            ["git", "config", *arguments],
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
