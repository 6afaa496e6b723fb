"""Rules for persistent writes: system and shell configuration, keys, credentials."""

from __future__ import annotations

from hermes.policy.call import Call
from hermes.policy.rules.rule import Rule


def _changes_mode(call: Call) -> bool:
    """Permissions of the system's own files."""
    paths = call.options.operands
    return any(path == "/" or call.paths.sensitive_kind(path) == "write-system-config" for path in paths)


def _changes_accounts(call: Call) -> bool:
    without_arguments = call.program in ("passwd", "visudo", "chpasswd")
    return not call.options.has("S", "status", "help", "version") and (bool(call.args) or without_arguments)


def sets_kernel_value(call: Call) -> bool:
    """Whether ``sysctl`` sets something."""
    return call.options.has("wp", "write", "load", "system") or any("=" in word for word in call.options.operands)


RULES = (
    Rule(
        "write-system-config",
        "changes files of the system",
        {
            "useradd userdel usermod groupadd groupdel groupmod passwd chpasswd": _changes_accounts,
            "visudo vipw vigr adduser deluser chsh gpasswd dscl": _changes_accounts,
            "chmod chown chgrp": _changes_mode,
            "sysctl": sets_kernel_value,
            "crontab": lambda call: not call.options.has("l") and bool(call.args or call.stdin.origin != "terminal"),
        },
    ),
    Rule("write-ssh", "changes SSH keys or settings"),
    Rule("write-shell-startup", "changes what runs at every login"),
    Rule("write-credentials", "changes stored credentials"),
    Rule("write-env-file", "changes a file of environment secrets"),
    Rule("write-hermes-config", "changes the configuration of this agent"),
    Rule("write-outside", "changes files outside of the working folder"),
)
