"""Rules for unreviewed code: downloaded, decoded, inline or unknown; and for hidden text (Trojan source)."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import EVERY, REDIRECTED, Rule, always, changing, with_arguments
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
    """A tunnel by which other machines reach this one, or what this one reaches."""
    if any(word.startswith("-") and not word.startswith("--") and "R" in word[1:] for word in call.args[:8]):
        return True
    if any(map(_FOR_OTHERS.fullmatch, call.args)):
        return True
    return any(map(_OPEN_FORWARD.match, (*call.values("LD"), *call.values("o"))))


#: Options that let others use a forwarding, or join the networks of both machines.
_FOR_OTHERS = re.compile(r"-[46AaCfGKkMNnqTtVvXxYy]*g[46AaCfGKkMNnqTtVvXxYyLD]*|-w(?:\d.*|any.*)?")
#: A forwarding that listens on every address, or one that the other machine begins.
_OPEN_FORWARD = re.compile(
    r"(?:(?:local|dynamic)forward[= ]+)?(?:0\.0\.0\.0|\*|\[?::\]?):"
    r"|remoteforward|tunnel(?:device)?[= ]|gatewayports[= ]+yes",
    re.IGNORECASE,
)
_SOCAT_LISTENS = re.compile(r"(?:tcp|udp|sctp|openssl|ssl|vsock)[\w-]*-?(?:listen|recvfrom|l)\b:", re.IGNORECASE)
_SOCAT_NETWORK = re.compile(r"(?:tcp|udp|sctp|openssl|ssl|socks|proxy|vsock|unix|exec|system|shell)", re.IGNORECASE)
_LOCAL_ONLY = re.compile(r"bind=(?:127\.|localhost|\[?::1)", re.IGNORECASE)


def _forwards(call: Call) -> bool:
    """A port that listens for everyone and hands on to another address."""
    listening = [word for word in call.args if _SOCAT_LISTENS.match(word) and not _LOCAL_ONLY.search(word)]
    others = [word for word in call.args if ":" in word and word not in listening and _SOCAT_NETWORK.match(word)]
    return bool(listening and others) or len(listening) > 1


_ALL_ADDRESSES = re.compile(r"(?:--?[\w.-]+[= ])?['\"]?(?:0\.0\.0\.0|\[?::\]?|\*)(?::\d+)?['\"]?$")


def _serves_all(call: Call) -> bool:
    """A forwarding or an editor that answers on every address."""
    return any(_ALL_ADDRESSES.match(word) for word in call.args)


def _serves_private_folder(call: Call) -> bool:
    """A web server over a home folder or the whole machine."""
    if call.program.startswith("python") and not {"http.server", "SimpleHTTPServer"} & set(call.args):
        return False
    folders = [*call.values("dt", "directory", "root"), *(word for word in call.args if word[:1] in ("/", "~"))]
    return any(map(call.paths.is_vital, folders or [call.paths.cwd or "."]))


def _runs_tunnel(call: Call) -> bool:
    """A tunnel that a runner of packages starts."""
    words = [word for word in call.args if not word.startswith("-")]
    return bool(words) and words[0].partition("@")[0] in _TUNNEL_PACKAGES and len(call.args) > 1


_TUNNEL_PACKAGES = names("localtunnel lt ngrok cloudflared untun tunnelmole expose localhost.run")


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


#: Where the work of miners is handed out.
_POOL = re.compile(
    r"stratum\d?(?:\+\w+)?://|(?:^|[/@=.])(?:\w*pool\w*|xmr\w*|\w*mine(?:r|rs|xmr|rgate)?|mining|nicehash|hashvault|nanopool|unmineable)"
    r"\.[\w.-]{1,200}:\d{2,5}\b",
    re.IGNORECASE,
)
_MINES = re.compile(r"-(?:o|-url|-pool|-algo|u|-user|-wallet|-donate-level)(?:=.*)?")
#: Programs that only show or store their words.
_TEXT_PROGRAMS = names("echo printf grep egrep rg ag git sed awk cat tee jq gh curl wget test [")


def _names_pool(call: Call) -> bool:
    """A program that is given the address of a pool, whatever its name."""
    found = [word for word in call.args if ":" in word and _POOL.search(word)]
    if not found or call.program in _TEXT_PROGRAMS:
        return False
    return any("stratum" in word for word in found) or any(map(_MINES.fullmatch, call.args))


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
        "connects a shell to the network, or opens a way into this machine or its network",
        {
            "nc ncat netcat socat": _serves_shell,
            "telnet openssl ssh": lambda call: _PIPED_SHELL.search(call.around) is not None,
            "ssh autossh": _opens_way_in,
            "socat": _forwards,
            "kubectl oc": lambda call: not {"port-forward", "proxy"}.isdisjoint(call.args[:6]) and _serves_all(call),
            "code-server openvscode-server jupyter jupyter-lab jupyter-notebook": _serves_all,
            "code code-insiders codium": lambda call: call.args[:1] in (["tunnel"], ["serve-web"]),
            "sshuttle rinetd redir simpleproxy 3proxy microsocks danted tinyproxy stunnel": with_arguments,
            "npx bunx pnpx uvx pipx": _runs_tunnel,
            "python php http-server serve caddy busybox": _serves_private_folder,
            "ztcp ttyd gotty wetty shellinabox shellinaboxd tmate upterm sshx": always,
            _TUNNELS: _opens_tunnel,
            "zmodload": lambda call: any("net/" in word for word in call.args),
            REDIRECTED: lambda call: any(path.startswith(("/dev/tcp/", "/dev/udp/")) for path in call.writes),
        },
    ),
    Rule(
        "mine-currency",
        "mines a currency with this machine",
        {
            "xmrig xmr-stak minerd cpuminer ethminer t-rex nbminer lolminer cgminer bfgminer ccminer": changing,
            "xmrig-proxy teamredminer phoenixminer gminer srbminer-multi minergate-cli nanominer wildrig": changing,
            EVERY: _names_pool,
        },
    ),
    Rule("send-credentials", "sends keys or passwords to another machine"),
    Rule("send-private", "sends private files or data to another machine"),
    Rule("read-own-secrets", "reads the keys or settings of this agent", hardline=True),
    Rule("read-credentials", "reads stored keys or passwords"),
    Rule("read-env-file", "reads a file of environment secrets"),
)
