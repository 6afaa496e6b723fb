"""Rules for services, and for privilege escalation: sudo in ways that bypass its password prompt."""

from __future__ import annotations

from hermes.policy.call import Call, ParsedOptions, base_name, read_options
from hermes.policy.programs.wrappers import unwrap
from hermes.policy.rules.rule import Predicate, Rule, operand
from hermes.policy.shell.words import names

_VERBS = names(
    "stop restart disable mask kill try-restart reload-or-restart isolate rescue emergency suspend hibernate "
    "hybrid-sleep revert unload bootout remove delete shutdown down force-stop force-restart zap"
)
_INTERACTIVE = names("sh bash zsh dash ksh fish csh tcsh ash su login")


def _changes_service(first: int, last: int | None) -> Predicate:
    """For service managers: where the verb stands."""
    return lambda call: not _VERBS.isdisjoint([word for word in call.options.operands if word][first:last])


def _own_options(call: Call) -> ParsedOptions:
    """The options of sudo itself, before the command that it runs."""
    inner = unwrap(call.program, call.args) or []
    return read_options(call.args[: len(call.args) - len(inner)])


def _opens_root_shell(call: Call) -> bool:
    if call.program in ("sudo", "doas") and _own_options(call).has("si", "shell", "login"):
        return True
    inner = unwrap(call.program, call.args) or []
    return bool(inner) and base_name(inner[0]) in _INTERACTIVE and len(inner) == 1 and call.stdin.origin == "terminal"


def _becomes_another(call: Call) -> bool:
    """``su`` and ``machinectl shell`` without a command."""
    if call.options.has("cV", "command", "session-command", "version", "help") or call.stdin.origin != "terminal":
        return False
    return call.program != "machinectl" or "shell" in call.args


RULES = (
    Rule(
        "stop-service",
        "stops, restarts or disables a service",
        {
            "systemctl launchctl rc-update sv supervisorctl initctl svcadm pm2 s6-rc monit sc": _changes_service(0, 2),
            "service rc-service": _changes_service(1, None),
            "brew": lambda call: call.options.operands[:1] == ["services"] and _changes_service(1, 2)(call),
            "net": operand("stop"),
        },
    ),
    Rule(
        "sudo-password",
        "gives sudo a password without a person typing it",
        {"sudo": lambda call: _own_options(call).has("SA", "stdin", "askpass")},
    ),
    Rule(
        "root-shell",
        "opens a shell as another user",
        {"sudo doas pkexec run0 gosu su-exec chroot": _opens_root_shell, "su machinectl": _becomes_another},
    ),
)
