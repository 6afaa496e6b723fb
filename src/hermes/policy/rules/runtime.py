"""Rules for the agent's own runtime: stopping it, changing it, or removing its safeguards."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.words import by_program, names

_OWN_NAME = re.compile(r"\bhermes(?:[-_]agent)?\b", re.IGNORECASE)
#: Commands with their verbs that ask; none means that every use does. Those that serve are among them: the page prints
#: the token with which approvals are answered.
_CHANGES = by_program(
    {
        "update uninstall setup install web api serve worker login logout": names(""),
        "gateway": names("run stop restart uninstall install retry approve add revoke"),
        "a2a": names("serve"),
        "trust": names("add remove"),
        "skills": names("add remove install"),
        "workers": names("drain evict"),
        "db": names("migrate copy"),
        "local": names("install remove"),
        "checkpoints": names("restore prune"),
        "config": names("set unset edit migrate"),
        "approvals": names("revoke allow add grant approve deny answer"),
        "auth": names("add login import set remove logout use"),
        "credentials": names("add set remove"),
        "mcp": names("add remove enable login logout serve"),
        "cron": names("add create remove rm edit run resume pause tick daemon"),
        "memory": names("add remove clear use off"),
        "profile": names("create use delete"),
        "model": names("set"),
        "plugins": names("install uninstall remove enable disable update"),
        "hooks": names("accept allow consent revoke"),
        "sessions": names("delete prune clear"),
    }
)
_UNGUARDED = names("--yolo --approve --auto-approve --accept-hooks --trust")


def _changes_itself(call: Call) -> bool:
    words = call.args
    if call.program != "hermes":
        at = next((at for at, word in enumerate(words) if word == "hermes" and words[at - 1 : at] == ["-m"]), None)
        if at is None:
            return False
        words = words[at + 1 :]
    if not _UNGUARDED.isdisjoint(words) or re.search(r" --mode[= ](?:yolo|auto)", f" {' '.join(words)}"):
        return True
    if words[-1:] in (["--help"], ["-h"]) and "--" not in words:
        return False
    operands = [word for word in words if not word.startswith("-")]
    if operands[:2] == ["gateway", "pair"]:
        del operands[1]
    verbs = _CHANGES.get(operands[0]) if operands else None
    return verbs is not None and (not verbs or not verbs.isdisjoint(operands[1:2]))


def _ends_itself(call: Call) -> bool:
    text = " ".join([call.source, *call.args])
    if _PARENT.search(text) is not None:
        return True
    return call.program in ("pkill", "killall", "skill") and any(
        re.search(r"python|\bpy\b|^\.\*?$", word) is not None for word in call.options.operands
    )


#: Where an approval is answered at the API or at the page, which is for people.
_APPROVAL_URL = re.compile(r"/v1/runs/[^/?#\s]+/approval|/api/approvals/", re.IGNORECASE)
_PARENT = re.compile(r"hermes|\bPPID\b|\bppid\b|/proc/self/stat", re.IGNORECASE)


def _opens_own_files(call: Call) -> bool:
    """A program that may change files of the agent's home."""
    home = call.paths.hermes_home
    if not home:
        return False
    for word in call.args:
        if "/" in word or "." in word:
            path = call.paths.resolve(word.partition("=")[2] or word)
            if path == home or path.startswith(home + "/"):
                return True
    return False


def _clones_into_home(call: Call) -> bool:
    works = not {"clone", "init", "worktree", "submodule", "checkout", "pull"}.isdisjoint(call.args)
    return works and _opens_own_files(call)


RULES = (
    Rule(
        "own-runtime",
        "stops or changes this agent, or removes its safeguards",
        {
            "hermes python": _changes_itself,
            "pip pipx uv conda": lambda call: "uninstall" in call.args and any(map(_OWN_NAME.fullmatch, call.args)),
            "kill pkill killall skill gdb lldb strace reptyr gcore": _ends_itself,
            "sqlite3 sqlite duckdb litecli sqlite-utils datasette usql": _opens_own_files,
            "pip npm uv poetry mkfifo mkdir unzip tar": _opens_own_files,
            "git hub": _clones_into_home,
            "curl wget http https httpie xh curlie aria2c": lambda call: any(map(_APPROVAL_URL.search, call.args)),
        },
    ),
)
