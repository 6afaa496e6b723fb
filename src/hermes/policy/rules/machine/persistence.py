"""Rules for persistence and for covering tracks: code that runs later by itself, logs and histories that vanish."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import ANY, Rule
from hermes.policy.rules.targets import PROGRAMS, written_kinds
from hermes.policy.shell.words import names

#: Variables that make other programs load or run code.
_LOADS_CODE = names(
    "LD_PRELOAD LD_AUDIT DYLD_INSERT_LIBRARIES PYTHONSTARTUP PERL5OPT PERL5DB RUBYOPT PROMPT_COMMAND BASH_ENV ENV "
    "GLIBC_TUNABLES GCONV_PATH PYTHONINSPECT PYTHONHOME ZDOTDIR"
)
_LOADS_CODE_BY = {
    "NODE_OPTIONS": re.compile(r"--(?:require|import|loader|experimental-loader|inspect)|-r\b"),
    "JAVA_TOOL_OPTIONS": re.compile(r"-(?:javaagent|agentlib|agentpath)"),
    "_JAVA_OPTIONS": re.compile(r"-(?:javaagent|agentlib|agentpath)"),
    "GIT_CONFIG_GLOBAL": re.compile(r"."),
}
#: Settings of git whose value is run, in ``git config KEY VALUE``.
_GIT_RUNS = re.compile(
    r"(?:core\.(?:hookspath|fsmonitor|sshcommand|gitproxy|askpass|attributesfile)|include\.path|includeif\..*|filter\..*|diff\..*\.(?:command|textconv)"
    r"|diff\.external|merge\..*\.driver|init\.templatedir|gpg\.(?:program|.*\.program)|uploadpack\..*|receive\..*|protocol\..*|ssh\.variant"
    r"|sequence\.editor|interactive\.difffilter|http\.sslverify|http\..*\.sslverify|safe\.directory|url\..*\.pushinsteadof)",
    re.IGNORECASE,
)
_GIT_MAY_RUN = re.compile(
    r"(?:core\.(?:pager|editor)|alias\..*|credential\..*|pager\..*|difftool\..*|mergetool\..*)", re.IGNORECASE
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
    if _GIT_RUNS.fullmatch(key):
        return True
    return _GIT_MAY_RUN.fullmatch(key) is not None and (
        value.lstrip().startswith("!") or re.search(r"[/;|&$`]", value) is not None
    )


def _manager_setting(call: Call) -> bool:
    words = [word for word in call.args if not word.startswith("-")]
    if words[:1] != ["config"] or words[1:2] not in (["set"], ["edit"], ["--set"]):
        return False
    return any(_MANAGER_SETTINGS.match(word.partition("=")[0]) for word in words[2:])


def _enables(call: Call) -> bool:
    operands = call.options.operands
    verbs = (
        "enable",
        "link",
        "edit",
        "set-default",
        "reenable",
        "preset",
        "add-wants",
        "import-environment",
        "set-environment",
        "set-property",
    )
    if call.program == "launchctl":
        return operands[:1] in (["load"], ["bootstrap"], ["enable"], ["submit"], ["setenv"])
    if call.program == "loginctl":
        return operands[:1] == ["enable-linger"]
    return any(word in verbs for word in operands[:1])


def _runs_later(call: Call) -> bool:
    if call.program == "systemd-run":
        return any(word.startswith(("--on-", "--timer")) for word in call.args)
    if call.program in ("at", "batch"):
        return not call.options.has("lV") and (
            bool(call.args) or call.program == "batch" or call.stdin.origin != "terminal"
        )
    if call.program == "schtasks":
        return any(word.lower() in ("/create", "/change", "/run") for word in call.args)
    if call.program == "pm2":
        return call.options.operands[:1] in (["startup"], ["save"])
    return call.program == "ssh-copy-id" or call.options.operands[:1] in (["add"], ["install"])


_HISTORY_VARIABLES = names("HISTFILE HISTSIZE HISTFILESIZE HISTCONTROL HISTIGNORE SAVEHIST fish_history")


def hides_history(name: str, value: str) -> bool:
    """Whether setting a variable stops the history of the shell."""
    if name not in _HISTORY_VARIABLES:
        return False
    if name in ("HISTFILE", "fish_history"):
        return value in ("", "/dev/null", "''") or value.startswith(("/dev/", "/tmp/"))
    return value == "0" if "SIZE" in name or name == "SAVEHIST" else value in ("*", "ignorespace:*")


def _wipes(call: Call) -> bool:
    match call.program:
        case "history":
            return any(word[:1] == "-" and set(word[1:]) & set("cdwr") for word in call.args)
        case "journalctl":
            return any(word.startswith(("--vacuum", "--rotate", "--flush", "--relinquish")) for word in call.args)
        case "dmesg":
            return call.options.has("Ccn", "clear", "read-clear", "console-off")
        case "wevtutil":
            return any(word.lower() in ("cl", "clear-log", "sl") for word in call.args)
        case "unset":
            return any(word in _HISTORY_VARIABLES for word in call.args)
        case "set":
            return {"+o", "history"} <= set(call.args)
        case "lastlog" | "faillock":
            return call.options.has("C", "clear", "reset")
        case "log":
            return "erase" in call.args
        case "fc":
            return {"-p", "/dev/null"} <= set(call.args)
        case "logrotate":
            return call.options.has("f", "force")
        case _:
            return call.program in ("clear-eventlog", "clear-history")


def _wipes_file(call: Call) -> bool:
    return "wipe-logs" in written_kinds(call)


def _writes_autorun(call: Call) -> bool:
    return "write-autorun" in written_kinds(call)


RULES = (
    Rule(
        "write-autorun",
        "changes a file or setting that other programs run by themselves",
        (
            (PROGRAMS, _writes_autorun),
            (ANY, _writes_autorun),
            (names("git hub"), _git_setting),
            (names("npm yarn pnpm pip pip3 conda bundle gem cargo poetry"), _manager_setting),
        ),
    ),
    Rule(
        "run-later",
        "lets code run later by itself",
        (
            (names("systemctl launchctl loginctl rc-update update-rc.d chkconfig"), _enables),
            (names("systemd-run at batch schtasks pm2 ssh-copy-id"), _runs_later),
        ),
    ),
    Rule("load-code", "makes other programs load code"),
    Rule(
        "wipe-logs",
        "deletes or changes logs or the history of commands",
        (
            (PROGRAMS, _wipes_file),
            (ANY, _wipes_file),
            (
                names(
                    "history journalctl dmesg wevtutil unset set lastlog faillock log fc clear-eventlog "
                    "clear-history logrotate"
                ),
                _wipes,
            ),
        ),
    ),
)
