"""Rules for clusters, clouds and services of others: destructive verbs, HTTP deletes, administrator rights."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.rules.rule import Rule
from hermes.policy.shell.words import by_program, names

#: Command lines of clusters, clouds, hosting, databases as a service, queues, CI and backups.
_TOOLS = (
    "aws gcloud az gsutil bq rclone mc s3cmd s5cmd b2 azcopy doctl hcloud linode-cli scw exo oci ibmcloud aliyun tccli "
    "yc openstack vultr-cli upctl civo heroku fly flyctl vercel netlify firebase railway render wrangler supabase "
    "neonctl pscale turso planetscale convex amplify sst cdk sam serverless sls chalice zappa eb copilot lightsailctl "
    "ecs-cli eksctl kops kubectl oc helm helmfile kustomize argocd argo flux istioctl linkerd cilium calicoctl k3d k3s "
    "kind minikube k0s microk8s kubeadm talosctl rke velero crossplane tkn nomad consul vault boundary waypoint packer "
    "terraform tofu terragrunt pulumi vagrant virsh virt-install qm pct pvesh vboxmanage vmrun multipass lxc incus "
    "limactl colima orb proxmox xe esxcli govc etcdctl zkcli.sh kafka-topics kafka-topics.sh kafka-consumer-groups.sh "
    "kafka-delete-records.sh rpk nats pulsar-admin rabbitmqctl rabbitmqadmin celery influx mongocli atlas ccloud "
    "confluent stripe twilio sendgrid auth0 okta circleci travis buildkite-agent jenkins-cli tkn glab gh hub restic "
    "borg duplicity kopia rdiff-backup tarsnap burp b3 zfs-auto-snapshot ceph rbd rados gluster mongorestore cockroach "
    "ysqlsh yugabyted dolt lakectl dvc databricks snow dbt prefect airflow dagster salt salt-call puppet chef knife "
    "ansible-playbook ansible-pull "
    "teleport tsh tctl okteto tilt skaffold devspace garden ngrok cloudflared cf faas-cli fn meltano fivetran "
    "sentry-cli datadog-ci newrelic pagerduty launchdarkly ldcli contentful sanity shopify wp drush ghost nixops "
    "colmena deploy-rs hcp keybase step certbot acme.sh lego porkbun cli53 flarectl dnscontrol octodns tailscale "
    "zerotier-cli"
)
#: Read from the beginning or end of a word: ``delete-stack``, ``apps:destroy``, ``sites:delete``.
_VERBS = names(
    "delete del destroy remove rm rb rmi terminate purge reset wipe drop uninstall undeploy deprovision deallocate "
    "nuke prune forget flush erase shutdown poweroff stop down kill drain evict undefine unregister deregister revoke "
    "disable truncate decommission taint undo rollback suspend pause detach cancel-all scale-down expire "
    "archive-delete unpublish takedown teardown cleanup delete_queue delete_vhost delete_user stop_app force_reset "
    "purge_queue clear rotate-secrets close-account seal deactivate"
)
_SPLIT = re.compile(r"[-:_.]")
#: Words that begin with a verb and are harmless.
_FALSE_FRIENDS = names("stop-words rm-dups reset-failed disable-telemetry pause-image clear-screen down-to drop-in")
#: What these programs call less than destructive.
_HARMLESS = {
    "gh": names("close cancel disable-x"),
    "terraform": names("down clear"),
    "minikube": names("stop pause"),
    "vagrant": names("halt suspend"),
    "celery": names("purge-x"),
    "tilt": names("down"),
    "dbt": names("clean"),
    "airflow": names("pause"),
    "colima": names("stop"),
    "ngrok": names("stop"),
    "tailscale": names("status"),
}
_REHEARSALS = re.compile(r"--(?:dry-?run(?:=(?!none|false).*)?|help|check|what-if|no-execute-changeset|plan)$|-h$")
_SCALE_TO_ZERO = re.compile(r"--(?:replicas|count|min|desired-(?:count|capacity)|num-nodes|instances|machines)=0$")
_ADMIN = re.compile(
    r"administratoraccess|poweruseraccess|\bcluster-admin\b|roles/(?:owner|editor|.*admin)|iamfullaccess"
    r"|\bglobal administrator\b"
    r"|\bsystem:masters\b|role[= ]owner\b|organizationadmin|accountadmin",
    re.IGNORECASE,
)
_GRANTS = re.compile(
    r"(?:attach|put)-(?:user|role|group)-policy|add-user-to-group|create-access-key|create-login-profile|add-iam-policy-binding|set-iam-policy"
    r"|update-assume-role-policy|set_user_tags|set_permissions|add-member|put-bucket-(?:policy|acl)|delete-public-access-block",
)
#: Everyone, in the words of the clouds: as the readers of a store, or as a range of addresses.
_EVERYONE = re.compile(
    r"\ball(?:Authenticated)?Users\b|\bpublic-read"
    r"|--public-access(?:-level)?[= ](?!off|none|disabled)|--public-access-type[= ]object"
    r"|\bprincipal[\"': =]+\*",
    re.IGNORECASE,
)
_FIREWALL = re.compile(
    r"security-?\s?group|firewall|\bnsg\b|network-?acl|authorized-networks|ip-allowlist", re.IGNORECASE
)
_ANYWHERE = re.compile(
    r"0\.0\.0\.0/0|::/0"
    r"|(?:source|remote|address)[\w-]{0,40}[= ]{1,3}['\"]?(?:\*|any|internet)(?![\w.])|--allow[= ]all\b",
    re.IGNORECASE,
)
_NARROWS = re.compile(r"delete|remove|revoke|describe|\blist\b|\bshow\b|\bget\b|egress|outbound", re.IGNORECASE)
_GIVES = re.compile(r"create|attach|add|put|set|assign|bind|grant|update|patch")


def _verb_in(word: str) -> bool:
    if word in _VERBS:
        return True
    if word in _FALSE_FRIENDS or "/" in word or "=" in word:
        return False
    parts = _SPLIT.split(word)
    return len(parts) > 1 and (parts[0] in _VERBS or parts[-1] in _VERBS) and len(word) < 48


#: First words by which a forge is only talked to, whatever verb follows.
_TALK = names("api search pr issue mr browse")
_DELETING = names("--delete --purge --destroy --deletedata --delete-excluded --remove-source-files --prune")
_FORGE_CHANGES = ("secret set", "variable set", "ssh-key add", "repo edit", "repo rename", "repo archive")
#: First words that change what runs or who may use it, although none of them is a verb of destruction.
_CHANGES = by_program(
    {
        "gh": (*_FORGE_CHANGES, "release create", "release edit", "release upload"),
        "glab": _FORGE_CHANGES,
        "terraform tofu": ("state push", "force-unlock", "state replace-provider"),
    }
)


def _destroys(call: Call) -> bool:
    if any(_REHEARSALS.match(word) for word in call.args):
        return False
    operands = _operands(call)
    if _names_destruction(call.program, operands):
        return call.program not in ("gh", "glab") or _TALK.isdisjoint(operands[:1])
    flags = {word.partition("=")[0] for word in call.args}
    if not _DELETING.isdisjoint(flags):
        return call.program != "git"
    line = " ".join((*operands[:2], ""))
    return (
        any(line.startswith(f"{words} ") for words in _CHANGES.get(call.program, ()))
        or any(_SCALE_TO_ZERO.match(word) for word in call.args)
        or _replaces(call, operands, flags)
        or _deploys_unseen(call, operands, flags)
    )


def _names_destruction(program: str, operands: list[str]) -> bool:
    harmless = _HARMLESS.get(program, frozenset())
    limit = 3 if program in ("kubectl", "oc", "gh", "helm", "aws") else 4
    return any(_verb_in(word) and word not in harmless for word in operands[:limit])


def _replaces(call: Call, operands: list[str], flags: set[str]) -> bool:
    match operands[:1]:
        case ["replace"]:
            return "--force" in flags
        case ["patch"]:
            return "finalizers" in " ".join(call.args)
        case _:
            return call.program == "nomad" and "-purge" in flags


def _deploys_unseen(call: Call, operands: list[str], flags: set[str]) -> bool:
    match call.program:
        case "terraform" | "tofu" | "terragrunt":
            unasked = ("auto-approve", "auto-approve=true", "terragrunt-non-interactive")
            applies = not {"apply", "destroy", "run-all"}.isdisjoint(call.args)
            return applies and any(word.lstrip("-") in unasked for word in call.args)
        case "pulumi" | "cdk" | "sst":
            is_asked = flags.isdisjoint(("-y", "--yes", "--skip-preview", "--require-approval=never"))
            return operands[:1] in (["up"], ["deploy"]) and not is_asked
        case "vault":
            return operands[:1] in (["write"], ["operator"]) and "status" not in operands
        case _:
            return False


def _operands(call: Call) -> list[str]:
    """The operands in lower case, without the values of options with a value."""
    words: list[str] = []
    skip = False
    for word in call.args:
        if skip:
            skip = False
        elif word.startswith("-"):
            skip = word in _VALUES
        else:
            words.append(word.lower())
    return words


_VALUES = names(
    "-n --namespace --context --kubeconfig --profile --region -p --project --account -a --app -f --file -H --host -c "
    "--config --resource-group -g --cluster --bootstrap-server --address -e --endpoint --output -o -l --selector "
    "--query --org -R --repo -s --stack"
)


def _grants(call: Call) -> bool:
    text = " ".join(call.args)
    if _ADMIN.search(text) is not None:
        return _GIVES.search(text) is not None
    if _EVERYONE.search(text) or (_FIREWALL.search(text) and _ANYWHERE.search(text)):
        return _NARROWS.search(text) is None
    return _GRANTS.search(text) is not None or {"role", "assignment", "create"} <= set(call.args)


_DELETE_QUERY = re.compile(
    r"_delete_by_query|/_(?:all|flush|shutdown|close)\b|\bdelete-all\b|[?&](?:action|method|_method)=(?:delete|destroy|drop)",
    re.IGNORECASE,
)


def _sends_delete(call: Call) -> bool:
    method = call.values("X", "request", "method", "x")
    if any(value.upper() in ("DELETE", "PURGE") for value in method):
        return True
    operands = call.options.operands
    if call.program in ("http", "https", "xh", "xhs", "curlie") and operands[:1] and operands[0].upper() == "DELETE":
        return True
    return any(_DELETE_QUERY.search(word) for word in operands if "/" in word) and bool(
        {value.upper() for value in method} & {"POST", "PUT"} or call.options.has("d", "data", "data-binary", "json")
    )


#: What a forge protects, in the addresses of its interface.
_PROTECTED = re.compile(
    r"/(?:protection|rulesets|merges?|branch-restrictions|protected_branches|collaborators|keys|hooks|actions/secrets)\b"
    r"|\bvisibility=public|\bprivate=false",
    re.IGNORECASE,
)


def _skips_review(call: Call) -> bool:
    """A merge with an administrator's rights, and a change of what protects a branch or a repository."""
    operands = call.options.operands
    if operands[1:2] == ["merge"]:
        return "--admin" in call.args
    if operands[:1] != ["api"] or not any(map(_PROTECTED.search, call.args)):
        return operands[:2] in (["repo", "deploy-key"], ["ruleset", "edit"]) and "list" not in operands
    methods = call.values("X", "method")
    return any(value.upper() != "GET" for value in methods) or (
        not methods and call.options.has("fF", "field", "input")
    )


def _skips_checks(call: Call) -> bool:
    """A push without the hooks that check it."""
    return "push" in call.args[:4] and "--no-verify" in call.args


RULES = (
    Rule(
        "destroy-resources",
        "deletes, stops or overwrites resources of a cluster, cloud or service",
        {_TOOLS: _destroys},
    ),
    Rule(
        "http-delete",
        "asks a server to delete something",
        {"curl wget http https xh xhs curlie gh glab hurl wget2 restish": _sends_delete},
    ),
    Rule(
        "grant-admin",
        "gives someone far-reaching rights, or lets everyone read or reach something",
        {_TOOLS: _grants},
    ),
    Rule(
        "skip-review",
        "goes past the checks or reviews that protect a branch",
        {"gh glab": _skips_review, "git hub": _skips_checks},
    ),
)

#: Programs that are not known but named like a tool for administration.
LIKE_A_TOOL = re.compile(r"\w(?:ctl|[-_]cli|[-_]?admin|adm)(?:\.sh)?$|-uninstall(?:\.sh)?$")


def destroys_by_name(call: Call) -> bool:
    """For tools that are known by the form of their name only."""
    return "uninstall" in call.program or _destroys(call)
