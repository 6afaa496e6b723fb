"""Stores of secrets: the commands of their programs that print or export what they keep."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hermes.policy.call import Call
from hermes.policy.shell.words import by_program

#: For each program, what the rest of its command line begins with when it prints a secret.
_PRINTS: Mapping[str, re.Pattern[str]] = {
    program: re.compile(pattern)
    for program, pattern in by_program(
        {
            "gh glab": r"auth (?:token|status .*(?:-t\b|--show-token))|config get .*token",
            "gcloud": r"auth (?:application-default )?print-|secrets versions access|iam service-accounts keys create"
            r"|sql generate-login-token|config config-helper",
            "aws": r"configure (?:get .*(?:secret|token|key)|export-credentials)|sts (?:get-session-token|assume-role"
            r"|get-federation-token)|ecr(?:-public)? get-login|ecr(?:-public)? get-authorization-token"
            r"|secretsmanager (?:get-secret-value|batch-get-secret)|ssm get-parameter\S* .*--with-decryption"
            r"|iam create-access-key|eks get-token|codeartifact get-authorization-token|rds generate-db-auth-token"
            r"|kms decrypt|sso get-role-credentials|redshift\S* get-\S*credentials",
            "az": r"account get-access-token|keyvault (?:secret (?:show|download)|key download)|ad sp create-for-rbac"
            r"|.* (?:list-keys|keys list|list-credentials|show-connection-string|get-credentials|credential show)",
            "vault bao": r"(?:kv get|read|print token|token create|unwrap|operator (?:init|generate-root))\b",
            "op": r"(?:read|item get|document get|inject|signin --raw|environment read)\b",
            "bw": r"(?:get (?:password|item|totp|notes|attachment)|list items|export|unlock .*--raw|send receive)\b",
            "rbw": r"(?:get|code|list .*password|history)\b",
            "pass gopass passage prs": r"(?!(?:ls|list|find|search|git|init|insert|add|edit|generate|rm|delete|mv|cp"
            r"|help|version|grep|otp uri|mounts|sync|sum|audit|setup|config|recipients)\b|-).",
            "lpass": r"(?:show|export)\b",
            "keepassxc-cli": r"(?:show .*(?:-s\b|--show-protected|-a\b|--all)|export|clip|attachment-export)",
            "secret-tool": r"(?:lookup|search)\b",
            "keyring": r"get\b",
            "security": r"(?:find-(?:generic|internet)-password .*-[gw]|dump-keychain|export)",
            "kubectl oc": r".*\bconfig view\b.*(?:--raw|--flatten)|.*\bget\b.*\bsecrets?\b.*(?:-o|--output|--template)"
            r"|create token\b|.*\bwhoami (?:-t|--show-token)|extract secrets?/|get-token",
            "git": r"credential(?:-\S+)? (?:fill|get)\b",
            "gpg gpg2": r".*--export-secret",
            "heroku": r"(?:auth:token|config(?::get)?(?:\s|$)|authorizations:(?:create|info)|pg:credentials)",
            "fly flyctl": r"(?:auth token|tokens create|ssh console)",
            "doctl": r"(?:auth token|registry (?:login|docker-config)|databases connection)",
            "databricks": r"(?:auth token|tokens create|secrets get)",
            "doppler": r"(?:secrets(?!.*--only-names)(?: get| download|\s*$| --)|configure get token)",
            "infisical": r"(?:secrets(?:\s|$)(?!folders|set|delete)|export|user get token)",
            "chamber": r"(?:read|export|env)\b",
            "sops": r"(?:.*(?:-d|--decrypt)\b|decrypt\b|exec-env)",
            "age rage": r".*(?:-d|--decrypt)\b",
            "ansible-vault": r"(?:view|decrypt)\b",
            "chezmoi": r"secret .*\bget\b",
            "rclone": r"(?:config (?:show|dump|create .*--obscure)|reveal)\b",
            "terraform tofu": r"(?:state pull|output .*-(?:raw|json)\b.*(?:pass|secret|token|key)|show .*-json)",
            "pulumi": r".*--show-secrets",
            "vercel": r"env pull",
            "netlify": r"env:(?:list .*--plain|get|export)",
            "railway": r"(?:variables|run env)\b",
            "supabase": r"(?:status .*-o|secrets list|projects api-keys)",
            "wrangler": r"auth token",
            "npm": r"token create|config get .*_auth",
            "nmcli": r".*(?:-s|--show-secrets)\b",
            "netsh": r"wlan show profile .*key=clear",
            "docker podman": r"(?:secret|config) inspect|(?:container )?inspect .*\.Env\b",
            "consul": r"(?:acl token|kv get)\b",
            "etcdctl": r"get .*(?:secret|token|password)",
            "jf jfrog": r"(?:config (?:show|export)|access-token-create|atc)\b",
            "snyk": r"config get api",
            "stripe": r"config --list",
            "cf": r"(?:oauth-token|env)\b",
            "ibmcloud": r"iam oauth-tokens",
            "oci": r"session authenticate|.*get-secret-bundle",
            "ykman": r"oath accounts code",
            "oathtool": r".*(?:--totp|-b)\b",
            "step": r"(?:ca token|crypto jwe decrypt)\b",
            "dbus-send": r".*org\.freedesktop\.secrets",
            "kwallet-query": r".*-r\b",
            "mimikatz secretsdump lazagne pypykatz": r"",
        }
    ).items()
}
#: Most of a command line that is compared: some patterns take more than linear time.
_LONGEST = 400
#: Helpers of programs that hand out what they keep.
_HELPER = re.compile(r"(?:docker-credential-|git-credential-)")
#: Programs behind a pipe that only change the form of what they show.
_FILTERS = frozenset(
    "jq yq cat head tail cut tr sed awk grep rg base64 base32 xxd od hexdump rev tac sort uniq fold column less more "
    "tee strings python python3 perl ruby node fmt nl paste bat gron dasel json_pp jless".split()
)


def prints_secret(call: Call) -> bool:
    """Whether a program prints or exports a secret that it keeps."""
    if _HELPER.match(call.program):
        return "get" in call.args[:1]
    pattern = _PRINTS.get(call.program)
    return pattern is not None and pattern.match(" ".join(call.args)[:_LONGEST]) is not None


def only_filters(commands: list[str]) -> bool:
    """Whether the later parts of a pipeline show what they read, in some form."""
    first = (command.split(None, 1)[0] if command.strip() else "" for command in commands)
    return all(word.rpartition("/")[2] in _FILTERS for word in first)
