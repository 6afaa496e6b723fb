"""Rules for unreviewed code: downloaded, decoded, inline or unknown; and for hidden text (Trojan source)."""

from __future__ import annotations

from hermes.policy.call import Call
from hermes.policy.rules.rule import ANY, Rule
from hermes.policy.shell.words import names

_NETWORK_TOOLS = names("nc ncat netcat socat")
_SENDERS = names("curl wget nc ncat scp rsync http https sftp ftp")


def _serves_shell(call: Call) -> bool:
    if call.program == "socat":
        return any(word.lower().startswith(("exec:", "system:", "shell:")) for word in call.args)
    return call.options.has("ec", "exec", "sh-exec", "lua-exec")


def _connects_out(call: Call) -> bool:
    return any(path.startswith(("/dev/tcp/", "/dev/udp/")) for path in call.writes)


def _sends_secret(call: Call) -> bool:
    return any(_names_secret(call, word) for word in call.args)


def _names_secret(call: Call, word: str) -> bool:
    path = word.rpartition("@")[2] if "@" in word else word.partition("=")[2] or word
    if path.startswith(("http", "-")) or ("/" not in path and not path.startswith(".")):
        return False
    kind = call.paths.sensitive_kind(path)
    return kind in ("write-ssh", "write-credentials") and not path.endswith(".pub")


RULES = (
    Rule("remote-script", "runs a script from the network"),
    Rule("decode-then-execute", "runs a script that is written in an encoding"),
    Rule("encoded-powershell", "runs PowerShell code that is written in an encoding"),
    Rule("inline-code", "runs code written on the command line"),
    Rule("unknown-program", "runs a program whose name is only known when it runs"),
    Rule("unknown-script", "runs a script whose text is only known when it runs"),
    Rule("wrapped-command", "hands a destructive command to a program that may run it"),
    Rule("made-executable", "makes a file executable and runs it"),
    Rule("hidden-text", "contains characters that make it look like another command"),
    Rule("unreadable", "cannot be read as a shell command"),
    Rule("network-shell", "connects a shell to the network", ((_NETWORK_TOOLS, _serves_shell), (ANY, _connects_out))),
    Rule("send-credentials", "sends keys or passwords to another machine", ((_SENDERS, _sends_secret),)),
)
