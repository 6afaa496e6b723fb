"""Rules for services, and for privilege escalation: sudo in ways that bypass its password prompt."""

from __future__ import annotations

from hermes.policy.call import Call, base_name
from hermes.policy.programs.wrappers import unwrap
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.words import names

_VERBS = names(
    "stop restart disable mask kill try-restart reload-or-restart isolate rescue emergency suspend hibernate "
    "hybrid-sleep revert unload bootout remove delete shutdown down force-stop force-restart zap"
)
_MANAGERS = names(
    "systemctl service launchctl rc-service rc-update sv supervisorctl initctl svcadm pm2 brew s6-rc monit sc net"
)


_INTERACTIVE = names("sh bash zsh dash ksh fish csh tcsh ash su login")


def _changes_service(call: Call) -> bool:
    operands = [word for word in call.options.operands if word]
    if call.program == "brew":
        return operands[:1] == ["services"] and not _VERBS.isdisjoint(operands[1:2])
    if call.program == "net":
        return operands[:1] == ["stop"]
    if call.program in ("service", "rc-service"):
        return not _VERBS.isdisjoint(operands[1:])
    return not _VERBS.isdisjoint(operands[:2])


def _sudo_flags(call: Call) -> set[str]:
    """The letters before the command that sudo runs."""
    flags: set[str] = set()
    skip = False
    for word in call.args:
        if skip:
            skip = False
        elif word.startswith("--"):
            flags.add({"stdin": "S", "askpass": "A", "shell": "s", "login": "i"}.get(word[2:], ""))
        elif word.startswith("-"):
            flags.update(word[1:])
            skip = word[-1] in "ugpCDhrRtTU"
        elif "=" not in word:
            break
    return flags


def _feeds_password(call: Call) -> bool:
    return not _sudo_flags(call).isdisjoint("SA")


def _opens_root_shell(call: Call) -> bool:
    if call.program in ("sudo", "doas") and not _sudo_flags(call).isdisjoint("si"):
        return True
    inner = unwrap(call.program, call.args) or []
    return bool(inner) and base_name(inner[0]) in _INTERACTIVE and len(inner) == 1 and call.stdin.origin == "terminal"


def _becomes_another(call: Call) -> bool:
    """``su`` and ``machinectl shell`` without a command."""
    if call.options.has("cV", "command", "session-command", "version", "help") or call.stdin.origin != "terminal":
        return False
    return call.program != "machinectl" or "shell" in call.args


RULES = (
    Rule("stop-service", "stops, restarts or disables a service", ((_MANAGERS, _changes_service),)),
    Rule(
        "sudo-password",
        "gives sudo a password without a person typing it",
        ((names("sudo"), _feeds_password),),
    ),
    Rule(
        "root-shell",
        "opens a shell as another user",
        (
            (names("sudo doas pkexec run0 gosu su-exec chroot"), _opens_root_shell),
            (names("su machinectl"), _becomes_another),
        ),
    ),
)
