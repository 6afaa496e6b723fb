"""Rules for containers: stopping them, and giving them access to the machine."""

from __future__ import annotations

import re
from itertools import zip_longest

from hermes.policy.call import Call, after_options
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.words import names

_STOPS = names("stop kill down restart prune")
_GROUPS = names("container compose pod image volume network system builder buildx stack service node swarm")
_VALUES = names("-f --file -p --project-name -H --host --context -c --env-file --profile -l --log-level --config")


_REACHES = re.compile(
    r"--privileged|--(?:pid|ipc|uts|userns|cgroupns)=host|--cap-add=(?:ALL|(?:CAP_)?(?:SYS_\w+|NET_ADMIN|NET_RAW|DAC_\w+|MKNOD|SETUID|BPF|PERFMON))"
    r"|--security-opt=(?:\w+[=:](?:unconfined|disable)|no-new-privileges[=:]false)|--device=/dev/.*",
    re.IGNORECASE,
)


def _verb(call: Call) -> tuple[str, str]:
    """The kind of thing that is worked on, if it is named, and the verb."""
    words = after_options(call.args, _VALUES.__contains__)
    group = words[0] if words and words[0] in _GROUPS else ""
    if group:
        words = after_options(words[1:], lambda word: group == "compose" and word in _VALUES)
    return group, words[0] if words else ""


def _stops(call: Call) -> bool:
    group, verb = _verb(call)
    if group == "compose" or call.program.endswith("-compose"):
        # Its services are those of the project, and the next "up" starts them again.
        return verb == "down" or (verb in ("rm", "kill") and call.options.has("fsv", "force", "stop", "volumes"))
    if verb in _STOPS:
        return True
    forced = call.options.has("f", "force", "volumes")
    if verb in ("rm", "rmi", "remove", "delete"):
        return forced or group in ("volume", "stack", "service", "network", "node")
    return group == "swarm" and verb == "leave"


def _reaches_host(call: Call) -> bool:
    """A container that can write to the machine it runs on."""
    if _verb(call)[1] not in ("run", "create"):
        return False
    for word, following in zip_longest(call.args, call.args[1:], fillvalue=""):
        if _REACHES.fullmatch(word) or (_REACHES.fullmatch(f"{word}={following}") and word.startswith("--")):
            return True
        mount = _mount_in(word, following)
        if mount and _mounts_vital(call, mount):
            return True
    return False


#: In the description of a pod: what lets it out of its container.
_POD_REACHES = re.compile(
    r"host(?:PID|IPC|Network|Users)[\"']?\s*:\s*[\"']?true|privileged[\"']?\s*:\s*true|hostPath[\"']?\s*:|allowPrivilegeEscalation[\"']?\s*:\s*true"
    r"|SYS_ADMIN|SYS_PTRACE|/run/(?:docker|containerd)"
)


def _pod_reaches_host(call: Call) -> bool:
    """A pod that can do on its node what it likes."""
    operands = call.options.operands
    if not {"run", "apply", "create", "patch", "replace", "debug", "set"}.isdisjoint(operands[:1]):
        text = " ".join((*call.args, call.stdin.text or ""))[:_LONGEST_POD]
        on_node = operands[:1] == ["debug"] and any(word.startswith("node/") for word in operands)
        return on_node or "--privileged" in call.args or _POD_REACHES.search(text) is not None
    return False


_LONGEST_POD = 20_000


def _mount_in(word: str, following: str) -> str:
    """What an option mounts; empty for another word."""
    if word in ("-v", "--volume", "--mount"):
        return following
    if word.startswith(("--volume=", "--mount=", "-v")):
        return word.partition("=")[2] or word[2:]
    return ""


def _mounts_vital(call: Call, value: str) -> bool:
    named = [part.partition("=")[2] for part in value.split(",") if part.startswith(("source=", "src="))]
    source = named[0] if named else value.partition(":")[0]
    return source.startswith(("/", "~")) and (
        call.paths.is_vital(source)
        or source.endswith(("docker.sock", "containerd.sock", "podman.sock"))
        or call.paths.secret_kind(source) is not None
    )


#: Where container engines take commands over HTTP.
_ENGINE_SOCKET = re.compile(r"(?:docker|podman|containerd|crio|buildkitd)[\w.-]*\.sock\b")
_ENGINE_PORT = re.compile(r"(?:tcp|https?)://[^/\s]+:237[567](?:/|$)|^[\w.\[\]:-]+:237[567](?:/|$)", re.IGNORECASE)
_READING = names("GET HEAD OPTIONS")


def _commands_engine(call: Call) -> bool:
    """A request to the engine's own interface that may change something: past every rule for its program."""
    line = " ".join(call.args)
    if not _ENGINE_SOCKET.search(line) and not any(map(_ENGINE_PORT.search, call.args)):
        return False
    if call.program in ("nc", "ncat", "netcat", "socat"):
        return True
    methods = call.values("X", "request", "method")
    if methods:
        return not _READING.issuperset(value.upper() for value in methods)
    sends = ("-d", "-F", "-T", "--data", "--json", "--form", "--post", "--body", "--upload")
    return any(word.startswith(sends) for word in call.args)


RULES = (
    Rule(
        "stop-container",
        "stops or deletes containers or their data",
        {"docker podman nerdctl docker-compose podman-compose": _stops},
    ),
    Rule(
        "container-host-access",
        "gives a container access to the machine it runs on",
        {
            "docker podman nerdctl": _reaches_host,
            "kubectl oc": _pod_reaches_host,
            "curl wget http https xh nc ncat netcat socat": _commands_engine,
        },
    ),
)
