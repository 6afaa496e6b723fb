"""Rules for the agent's own runtime: stopping it, changing it, or removing its safeguards."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.words import names

_OWN_NAME = re.compile(r"\bhermes(?:[-_]agent)?\b", re.IGNORECASE)
_CHANGES = {
    **dict.fromkeys(("update", "uninstall", "setup"), names("")),
    "gateway": names("stop restart uninstall install"),
    "config": names("set unset edit migrate"),
    "approvals": names("revoke allow add grant"),
    "plugins": names("install uninstall remove enable disable update"),
    "hooks": names("accept allow consent revoke"),
    "sessions": names("delete prune clear"),
}


def _changes_itself(call: Call) -> bool:
    words = call.args
    if call.program != "hermes":
        at = next((at for at, word in enumerate(words) if word == "hermes" and words[at - 1 : at] == ["-m"]), None)
        if at is None:
            return False
        words = words[at + 1 :]
    if "--yolo" in words:
        return True
    operands = [word for word in words if not word.startswith("-")]
    verbs = _CHANGES.get(operands[0]) if operands else None
    return verbs is not None and (not verbs or not verbs.isdisjoint(operands[1:2]))


def _uninstalls(call: Call) -> bool:
    return "uninstall" in call.args and any(_OWN_NAME.fullmatch(word) for word in call.args)


def _ends_itself(call: Call) -> bool:
    return "hermes" in " ".join([call.source, *call.args]).lower()


RULES = (
    Rule(
        "own-runtime",
        "stops or changes this agent, or removes its safeguards",
        (
            (names("hermes python"), _changes_itself),
            (names("pip pipx uv conda"), _uninstalls),
            (names("kill pkill killall skill"), _ends_itself),
        ),
    ),
)
