"""Rules for unreviewed code: downloaded, decoded, inline or unknown; and for hidden text (Trojan source)."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import REDIRECTED, Rule, always, changing
from hermes.policy.shell.words import names

#: A shell in the middle of a pipeline, or at its beginning when it is interactive or reads from a file such as a FIFO.
_PIPED_SHELL = re.compile(
    r"\|\s*(?:\S*/)?(?:ba|da|z|k|fi|c|tc)?sh\b[^|]*\|"
    r"|(?:^|[;&(\n])\s*(?:\S*/)?(?:ba|da|z|k|fi|c|tc)?sh(?:\s+-\w*[is]\w*|\s*\d?[<>][^|;&\s]|\s*\d?>&\d)[^|;]*\|"
)


def _serves_shell(call: Call) -> bool:
    if _PIPED_SHELL.search(call.around):
        return True
    if call.program == "socat":
        return any(word.lower().startswith(("exec:", "system:", "shell:")) for word in call.args)
    return call.options.has("ec", "exec", "sh-exec", "lua-exec")


def _opens_way_in(call: Call) -> bool:
    """A reverse tunnel: the other machine reaches this one."""
    return any(word.startswith("-") and not word.startswith("--") and "R" in word[1:] for word in call.args[:8])


#: Programs that make a port of this machine reachable from the network.
_TUNNELS = (
    "ngrok lt localtunnel frpc frps bore chisel inlets inletsctl pagekite rathole gost zrok playit serveo expose "
    "pinggy telebit localxpose loclx tunnelto hypertunnel cloudflared tailscale devtunnel iodine dnscat2"
)
_NO_TUNNEL = names(
    "version --version -v help --help -h config login logout status access ping ip netcheck up down set update list "
    "whois switch ssh cert lock web authtoken diagnose service"
)


def _opens_tunnel(call: Call) -> bool:
    if call.program == "ngrok" and call.args[:1] == ["http"]:
        return False  # shows a page that is being developed; a port of another kind is a way in
    return bool(call.args) and _NO_TUNNEL.isdisjoint(call.args[:1])


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
    Rule(
        "network-shell",
        "connects a shell to the network",
        {
            "nc ncat netcat socat": _serves_shell,
            "telnet openssl ssh": lambda call: _PIPED_SHELL.search(call.around) is not None,
            "ssh autossh": _opens_way_in,
            "ztcp ttyd gotty wetty shellinabox shellinaboxd tmate upterm sshx": always,
            _TUNNELS: _opens_tunnel,
            "zmodload": lambda call: any("net/" in word for word in call.args),
            REDIRECTED: lambda call: any(path.startswith(("/dev/tcp/", "/dev/udp/")) for path in call.writes),
        },
    ),
    Rule(
        "mine-currency",
        "mines a currency with this machine",
        {"xmrig xmr-stak minerd cpuminer ethminer t-rex nbminer lolminer cgminer bfgminer ccminer": changing},
    ),
    Rule("send-credentials", "sends keys or passwords to another machine"),
    Rule("send-private", "sends private files or data to another machine"),
    Rule("read-own-secrets", "reads the keys or settings of this agent", hardline=True),
    Rule("read-credentials", "reads stored keys or passwords"),
    Rule("read-env-file", "reads a file of environment secrets"),
)
