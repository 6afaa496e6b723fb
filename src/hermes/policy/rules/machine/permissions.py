"""Rules for file permissions: world-writable files, setuid (privilege escalation), recursive changes."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import Rule

_PROGRAMS = "chmod gchmod chown gchown chgrp gchgrp chattr setfacl"
_EXPLICIT = re.compile(r"(?:^|,)[ug]*[oa][ugoa]*[+=][rxXst]*w|(?:^|,)=[rxXst]*w")
_SETUID = re.compile(r"(?:^|,)[ugoa]*[+=][rwxX]*s")


def _mode(call: Call) -> str:
    return next((word for word in call.args if not word.startswith("-") or re.match(r"-[rwxst]", word)), "")


def _opens_to_all(call: Call) -> bool:
    mode = _mode(call)
    if re.fullmatch(r"[+=]?[0-7]{1,5}", mode):
        return int(mode[-1]) & 2 != 0
    return _EXPLICIT.search(mode) is not None


def _sets_id(call: Call) -> bool:
    mode = _mode(call)
    if re.fullmatch(r"[0-7]{4,5}", mode):
        return int(mode[-4]) & 6 != 0
    return _SETUID.search(mode) is not None and not mode.startswith("o")


def _is_recursive(call: Call) -> bool:
    return call.options.has("R", "recursive")


def _vital_recursive(call: Call) -> bool:
    return _is_recursive(call) and any(map(call.paths.is_vital, call.options.operands))


def _system_recursive(call: Call) -> bool:
    """The root or a folder of the system."""
    return _is_recursive(call) and any(map(call.paths.is_system, call.options.operands))


def _gives_to_root(call: Call) -> bool:
    owner = call.options.operands[0] if call.options.operands else ""
    return _is_recursive(call) and re.match(r"(?:root|0)(?:$|[:.])|:(?:root|wheel|0)$", owner) is not None


RULES = (
    Rule(
        "system-permissions",
        "changes the permissions or owners of the system and all below it",
        {_PROGRAMS: _system_recursive},
        hardline=True,
    ),
    Rule("world-writable", "lets every user change a file", {"chmod gchmod": _opens_to_all}),
    Rule("set-user-id", "lets every user run a file as its owner", {"chmod gchmod": _sets_id}),
    Rule(
        "recursive-permissions",
        "changes permissions of a system or home directory and all below it",
        {_PROGRAMS: _vital_recursive},
    ),
    Rule("recursive-chown-root", "gives a directory tree to root", {"chown gchown chgrp": _gives_to_root}),
)
