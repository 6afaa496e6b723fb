"""Rules for persistent writes: system and shell configuration, keys, credentials."""

from __future__ import annotations

from hermes.policy.call import Call
from hermes.policy.rules.rule import ANY, Predicate, Rule
from hermes.policy.rules.targets import PROGRAMS, written_kinds
from hermes.policy.shell.words import names

_ACCOUNTS = names(
    "useradd userdel usermod groupadd groupdel groupmod passwd chpasswd visudo vipw vigr adduser deluser chsh gpasswd "
    "dscl"
)


def _writes(kind: str) -> Predicate:
    def applies(call: Call) -> bool:
        return kind in written_kinds(call)

    return applies


def _changes_mode(call: Call) -> bool:
    """Permissions of the system's own files."""
    paths = call.options.operands
    return any(path == "/" or call.paths.sensitive_kind(path) == "write-system-config" for path in paths)


def _changes_accounts(call: Call) -> bool:
    return not call.options.has("S", "status", "help", "version") and (
        bool(call.args) or call.program in ("passwd", "visudo", "chpasswd")
    )


def _sets_kernel_value(call: Call) -> bool:
    return call.options.has("wp", "write", "load", "system") or any("=" in word for word in call.options.operands)


def _changes_crontab(call: Call) -> bool:
    return not call.options.has("l") and (bool(call.args) or call.stdin.origin != "terminal")


def _rule(key: str, description: str, *more: tuple[frozenset[str], Predicate]) -> Rule:
    return Rule(key, description, ((PROGRAMS, _writes(key)), (ANY, _writes(key)), *more))


RULES = (
    _rule(
        "write-system-config",
        "changes files of the system",
        (_ACCOUNTS, _changes_accounts),
        (names("chmod chown chgrp"), _changes_mode),
        (names("sysctl"), _sets_kernel_value),
        (names("crontab"), _changes_crontab),
    ),
    _rule("write-ssh", "changes SSH keys or settings"),
    _rule("write-shell-startup", "changes what runs at every login"),
    _rule("write-credentials", "changes stored credentials"),
    _rule("write-env-file", "changes a file of environment secrets"),
    _rule("write-hermes-config", "changes the configuration of this agent"),
)
