"""Rules for killing processes, shutdown and fork bombs."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import REDIRECTED, Rule, always, any_of, option
from hermes.policy.rules.targets import written_paths

_KILL = re.compile(r"-(?:s|-signal)?=?(?:9|SIGKILL|KILL)", re.IGNORECASE)
_LOGIN_MANAGER = re.compile(
    r"(?:login1|ConsoleKit|UPower|SessionManager)\S*\.(?:PowerOff|Reboot|Halt|KExec|Shutdown|Restart|Stop)",
    re.IGNORECASE,
)


def _kills_all(call: Call) -> bool:
    """``kill -1`` and ``kill -9 -1``; the first number with a dash is the signal when something follows it."""
    args = call.args
    if "-l" in args or "-L" in args:
        return False
    if args[:1] in (["-s"], ["-n"], ["--signal"]):
        args = args[2:]
    elif args and re.fullmatch(r"-(?:\d+|[A-Za-z]+\d*|-signal=.*)", args[0]) and len(args) > 1:
        args = args[1:]
    return "-1" in args


def _powers_off(call: Call) -> bool:
    if call.program == "shutdown" and ("-c" in call.args or "--show" in call.args):
        return False
    return not {"--help", "--version", "/?"}.intersection(call.args) and not (
        call.program == "halt" and "-w" in call.args
    )


def _manager_powers_off(call: Call) -> bool:
    verbs = ("poweroff", "reboot", "halt", "kexec", "soft-reboot")
    verb, *units = call.options.operands or [""]
    return verb in verbs or (verb in ("start", "isolate") and any(f"{name}.target" in units for name in verbs))


def _message_powers_off(call: Call) -> bool:
    return any(_LOGIN_MANAGER.search(word) for word in (*call.args, " ".join(call.args).replace(" ", ".")))


def _triggers_sysrq(call: Call) -> bool:
    return any(call.paths.resolve(path) == "/proc/sysrq-trigger" for path in [*call.writes, *written_paths(call)])


def _pkills_many(call: Call) -> bool:
    if any(_KILL.fullmatch(word) for word in call.args) or re.search(
        r"(?:^| )(?:-s|--signal) (?:SIG)?(?:KILL|9)\b", " ".join(call.args)
    ):
        return True
    options = call.options
    return options.has("uUGv", "euid", "uid", "group", "inverse") or any(
        word in (".", ".*", "", "^") for word in options.operands
    )


def _kills_some(call: Call) -> bool:
    return _kills_found(call) or ("1" in call.args[1:] and any(map(_KILL.fullmatch, call.args)))


def _kills_found(call: Call) -> bool:
    """Processes that a lookup by name finds; one that listens on a port is found on purpose."""
    return _LOOKUP.search(f"{call.source} {call.around}") is not None and not _BY_PORT.search(call.source)


_BY_PORT = re.compile(r"\blsof\b[^|]*-\w*i|\bss\b|\bfuser\b")
_LOOKUP = re.compile(r"\b(?:pgrep|pidof|ps|top|pidin|jps|tasklist|systemctl)\b")


def _xargs_kills(call: Call) -> bool:
    inner = [word for word in call.options.operands if word not in ("sudo", "doas", "env")]
    return inner[:1] in (["kill"], ["pkill"], ["/bin/kill"]) and not _BY_PORT.search(call.around)


RULES = (
    Rule(
        "kill-everything",
        "ends every process it can reach",
        {"kill": _kills_all, "killall5": always},
        hardline=True,
    ),
    Rule(
        "power-off",
        "turns the machine off or restarts it",
        {
            "shutdown reboot halt poweroff stop-computer restart-computer": _powers_off,
            "init telinit": any_of("0 6"),
            "systemctl loginctl": _manager_powers_off,
            "busctl dbus-send gdbus qdbus qdbus6": _message_powers_off,
            "tee dd cp": _triggers_sysrq,
            REDIRECTED: _triggers_sysrq,
            "kexec": option("e", "exec"),
        },
        hardline=True,
    ),
    Rule("fork-bomb", "starts itself over and over until the machine hangs", hardline=True),
    Rule(
        "kill-many",
        "ends processes by name or without letting them finish",
        {
            "pkill skill": _pkills_many,
            "killall": lambda call: bool(call.args) and not call.options.has("lV", "list", "version", "help"),
            "fuser": option("k", "kill"),
            "kill": _kills_some,
            "xargs gxargs parallel": _xargs_kills,
        },
    ),
)
