"""Environment of child processes: the variables that commands, background processes and hook commands inherit."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

import msgspec

from hermes.base.sanitize import Redactor, is_secret_key

#: All that work for a caller inherits, with ``LC_*`` and proxies.
MINIMAL = frozenset({"PATH", "HOME", "USER", "LANG", "TERM", "TZ", "TMPDIR"})
_PROXIES = frozenset({"http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"})

#: Shorter secrets are found only as the whole value: inside another value they are as likely a coincidence.
_SHORTEST_PART = 12


class ChildEnvironment(msgspec.Struct, frozen=True):
    """The variables of a child process, and the names of those that hold a secret and were left out."""

    variables: dict[str, str]
    withheld: frozenset[str] = frozenset()


def child_environment(
    source: Mapping[str, str], redactor: Redactor, passthrough: Collection[str] = (), *, minimal: bool = False
) -> ChildEnvironment:
    """The environment for a child process of a process whose own is ``source``.

    For the owner of the home that is all of it but secrets. ``minimal``, for work that others asked for, is a short
    list of names. ``passthrough`` adds variables by name; with ``minimal`` a secret stays withheld even then.
    """
    variables: dict[str, str] = {}
    withheld: set[str] = set()
    for name, value in source.items():
        is_passed = name in passthrough
        if minimal and not (is_passed or _is_minimal(name, value)):
            continue
        if (is_passed and not minimal) or not _is_secret(name, value, redactor):
            variables[name] = value
        else:
            withheld.add(name)
    return ChildEnvironment(variables, frozenset(withheld))


def _is_minimal(name: str, value: str) -> bool:
    if name in MINIMAL or name.startswith("LC_"):
        return True
    # A proxy with user name and password in its address is a credential.
    return name.lower() in _PROXIES and "@" not in value


def _is_secret(name: str, value: str, redactor: Redactor) -> bool:
    if name in MINIMAL or not value:
        return False
    return is_secret_key(name) or redactor.holds_secret(value, shortest_part=_SHORTEST_PART)


def withheld_hint(withheld: Collection[str], command: str, output: str, exit_code: int) -> str:
    """One line for the model about the withheld variables that a command seems to have missed; empty when none.

    A variable is missed when the command refers to it, and when a command that failed names it in its output or is
    the program that it is named after (``GH_TOKEN`` for ``gh``).
    """
    if not withheld:
        return ""
    missed = [name for name in sorted(withheld) if _refers_to(command, name)]
    if exit_code != 0:
        words = frozenset(re.findall(r"\w+", command[:10_000]))
        missed += [
            name
            for name in sorted(withheld)
            if name not in missed and (name in output or name.partition("_")[0].lower() in words)
        ]
    if not missed:
        return ""
    names = ", ".join(missed)
    verb = "is" if len(missed) == 1 else "are"
    return (
        f"{names} {verb} set, but withheld from commands because of the secret in it. The user can pass it on: "
        f"hermes config set terminal.env_passthrough '[{names}]'"
    )


def _refers_to(command: str, name: str) -> bool:
    return name in command and re.search(rf"\b{re.escape(name)}\b(?!=)", command) is not None
