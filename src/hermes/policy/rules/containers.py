"""Rules for containers, clusters and cloud resources."""

from __future__ import annotations

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
        if word in ("--privileged", "--pid=host") or word.startswith("--device=/dev/"):
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


def _deletes_in_cluster(call: Call) -> bool:
    words = _operands(call)
    verbs = _CLUSTER.get(call.program, ())
    return any(word in verbs for word in words[:2])


_CLUSTER = {
    "kubectl": names("delete drain"),
    "helm": names("uninstall delete del"),
    "virsh": names("destroy undefine"),
    **dict.fromkeys(names("oc doctl minikube kind eksctl"), names("delete")),
    **dict.fromkeys(names("terraform tofu pulumi cdk vagrant fly flyctl"), names("destroy")),
}


def _applies_unseen(call: Call) -> bool:
    return "apply" in call.args and any(word.lstrip("-") in ("auto-approve", "auto-approve=true") for word in call.args)


def _deletes_in_cloud(call: Call) -> bool:
    words, options = call.options.operands, call.options
    if call.program == "aws" and words[:1] == ["s3"]:
        return (
            words[1:2] == ["rb"] or (words[1:2] == ["rm"] and options.has("", "recursive")) or options.has("", "delete")
        )
    if call.program in ("gsutil", "rclone", "mc", "s3cmd"):
        return any(word in ("rm", "rb", "purge", "delete", "deltree", "del", "remove-bucket") for word in words) and (
            call.program != "gsutil" or options.has("rR") or "rb" in words
        )
    return any(word == "delete" or word.startswith(("delete-", "terminate-")) for word in words)


RULES = (
    Rule("stop-container", "stops or deletes containers or their data", ((_ENGINES, _stops),)),
    Rule(
        "container-host-access",
        "gives a container access to the machine it runs on",
        ((names("docker podman nerdctl"), _reaches_host),),
    ),
    Rule(
        "destroy-resources",
        "deletes resources of a cluster or cloud account",
        (
            (frozenset(_CLUSTER), _deletes_in_cluster),
            (names("terraform tofu"), _applies_unseen),
            (names("aws gcloud az gsutil rclone mc s3cmd"), _deletes_in_cloud),
        ),
    ),
)
