"""Rules for containers: stopping them, and giving them access to the machine."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.words import names

_ENGINES = names("docker podman nerdctl docker-compose podman-compose")
_STOPS = names("stop kill down restart prune")
_GROUPS = names("container compose pod image volume network system builder buildx stack service node swarm")
_VALUES = names("-f --file -p --project-name -H --host --context -c --env-file --profile -l --log-level --config")


def _operands(call: Call) -> list[str]:
    """The operands, without the values of global options."""
    words: list[str] = []
    skip = False
    for word in call.args:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in _VALUES and words in ([], ["compose"])
        else:
            words.append(word)
    return words


_REACHES = re.compile(
    r"--(?:pid|ipc|uts|userns|cgroupns)=host|--cap-add=(?:ALL|(?:CAP_)?(?:SYS_\w+|NET_ADMIN|NET_RAW|DAC_\w+|MKNOD|SETUID|BPF|PERFMON))"
    r"|--security-opt=(?:\w+[=:](?:unconfined|disable)|no-new-privileges[=:]false)|--device=/dev/.*",
    re.IGNORECASE,
)


def _verb(call: Call) -> tuple[str, str, list[str]]:
    words = _operands(call)
    group = words[0] if words and words[0] in _GROUPS else ""
    verbs = words[1:] if group else words
    return group, verbs[0] if verbs else "", verbs[1:]


def _stops(call: Call) -> bool:
    group, verb, _ = _verb(call)
    if verb in _STOPS:
        return True
    forced = call.options.has("f", "force", "volumes")
    if verb in ("rm", "rmi", "remove", "delete"):
        return forced or group in ("volume", "stack", "service", "network", "node")
    return group == "swarm" and verb == "leave"


def _reaches_host(call: Call) -> bool:
    """A container that can write to the machine it runs on."""
    _, verb, _ = _verb(call)
    if verb not in ("run", "create"):
        return False
    for at, word in enumerate(call.args):
        following = call.args[at + 1] if at + 1 < len(call.args) else ""
        if word == "--privileged" or word.startswith("--device=/dev/"):
            return True
        if _REACHES.fullmatch(word) or (_REACHES.fullmatch(f"{word}={following}") and word.startswith("--")):
            return True
        value = ""
        if word in ("-v", "--volume", "--mount") and at + 1 < len(call.args):
            value = call.args[at + 1]
        elif word.startswith(("--volume=", "--mount=")) or (word.startswith("-v") and len(word) > 2):
            value = word.partition("=")[2] or word[2:]
        if value and _mounts_vital(call, value):
            return True
    return False


def _mounts_vital(call: Call, value: str) -> bool:
    named = [part.partition("=")[2] for part in value.split(",") if part.startswith(("source=", "src="))]
    source = named[0] if named else value.partition(":")[0]
    return source.startswith(("/", "~")) and (call.paths.is_vital(source) or source.endswith("docker.sock"))


RULES = (
    Rule("stop-container", "stops or deletes containers or their data", ((_ENGINES, _stops),)),
    Rule(
        "container-host-access",
        "gives a container access to the machine it runs on",
        ((names("docker podman nerdctl"), _reaches_host),),
    ),
)
