"""Rules for persistence and for covering tracks: code that runs later by itself, logs and histories that vanish."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.files.git_keys import runs_code
from hermes.policy.rules.rule import Predicate, Rule, always, operand, option, prefix
from hermes.policy.shell.words import by_program, names

#: Variables that make other programs load or run code.
_LOADS_CODE = names(
    "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES PYTHONSTARTUP PERL5OPT PERL5DB RUBYOPT PROMPT_COMMAND BASH_ENV ENV "
    "GLIBC_TUNABLES GCONV_PATH PYTHONINSPECT PYTHONHOME ZDOTDIR"
)
_LOADS_CODE_BY = by_program(
    {
        "NODE_OPTIONS": re.compile(r"--(?:require|import|loader|experimental-loader|inspect)|-r\b"),
        "JAVA_TOOL_OPTIONS _JAVA_OPTIONS": re.compile(r"-(?:javaagent|agentlib|agentpath)"),
        "GIT_CONFIG_GLOBAL": re.compile(r"."),
    }
)
#: Settings of git that run nothing, and make it trust what it did not trust, or send elsewhere.
_GIT_TRUSTS = re.compile(
    r"http\.(?:.*\.)?sslverify|safe\.directory|url\..*\.pushinsteadof|uploadpack\..*|receive\..*|ssh\.variant",
    re.IGNORECASE,
)
_MANAGER_SETTINGS = re.compile(
    r"(?:script-shell|prefix|globalconfig|userconfig|registry|.*:registry|index-url|global\.(?:index-url|extra-index-url|trusted-host|find-links)"
    r"|install\..*|shell|node-options|git|strict-ssl|cafile|proxy|https-proxy|ignore-scripts|extra-index-url|source|channels)$"
)


def loads_code(name: str, value: str) -> bool:
    """Whether setting a variable makes other programs load or run code."""
    pattern = _LOADS_CODE_BY.get(name)
    return bool(value) and (name in _LOADS_CODE or (pattern is not None and pattern.search(value) is not None))


def _git_setting(call: Call) -> bool:
    words = [word for word in call.args if not word.startswith("-")]
    if words[:1] != ["config"]:
        return False
    words = [word for word in words[1:] if word not in ("set", "add")]
    key, value = (words[0] if words else ""), " ".join(words[1:])
    if not value:
        return False
    return runs_code(key, value) or _GIT_TRUSTS.fullmatch(key) is not None


def _manager_setting(call: Call) -> bool:
    words = [word for word in call.args if not word.startswith("-")]
    if words[:1] != ["config"] or words[1:2] not in (["set"], ["edit"], ["--set"]):
        return False
    return any(_MANAGER_SETTINGS.match(word.partition("=")[0]) for word in words[2:])


def _queues(call: Call) -> bool:
    """A job for ``at``, from its arguments or from a pipe."""
    return not call.options.has("lV") and bool(call.args or call.program == "batch" or call.stdin.origin != "terminal")


def _any_case(words: str) -> Predicate:
    wanted = names(words)
    return lambda call: any(word.lower() in wanted for word in call.args)


_HISTORY_VARIABLES = names("HISTFILE HISTSIZE HISTFILESIZE HISTCONTROL HISTIGNORE SAVEHIST fish_history")


def hides_history(name: str, value: str) -> bool:
    """Whether setting a variable stops the history of the shell."""
    if name not in _HISTORY_VARIABLES:
        return False
    if name in ("HISTFILE", "fish_history"):
        return value in ("", "/dev/null", "''") or value.startswith(("/dev/", "/tmp/"))
    return value == "0" if "SIZE" in name or name == "SAVEHIST" else value in ("*", "ignorespace:*")


RULES = (
    Rule(
        "write-autorun",
        "changes a file or setting that other programs run by themselves",
        {
            "git hub": _git_setting,
            "npm yarn pnpm pip pip3 conda bundle gem cargo poetry": _manager_setting,
        },
    ),
    Rule(
        "run-later",
        "lets code run later by itself",
        {
            "systemctl rc-update update-rc.d chkconfig": operand(
                "enable link edit set-default reenable preset add-wants import-environment set-environment set-property"
            ),
            "launchctl": operand("load bootstrap enable submit setenv"),
            "loginctl": operand("enable-linger"),
            "systemd-run": prefix("--on- --timer"),
            "at batch": _queues,
            "schtasks": _any_case("/create /change /run"),
            "pm2": operand("startup save"),
            "ssh-copy-id": always,
        },
    ),
    Rule("load-code", "makes other programs load code"),
    Rule(
        "wipe-logs",
        "deletes or changes logs or the history of commands",
        {
            "history": lambda call: any(word[:1] == "-" and set(word[1:]) & set("cdwr") for word in call.args),
            "journalctl": prefix("--vacuum --rotate --flush --relinquish"),
            "dmesg": option("Ccn", "clear", "read-clear", "console-off"),
            "wevtutil": _any_case("cl clear-log sl"),
            "unset": lambda call: not _HISTORY_VARIABLES.isdisjoint(call.args),
            "set": lambda call: {"+o", "history"} <= set(call.args),
            "lastlog faillock": option("C", "clear", "reset"),
            "log": lambda call: "erase" in call.args,
            "fc": lambda call: {"-p", "/dev/null"} <= set(call.args),
            "logrotate": option("f", "force"),
            "clear-eventlog clear-history": always,
        },
    ),
)
