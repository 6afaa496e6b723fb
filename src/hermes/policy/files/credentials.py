"""Files with keys, tokens, passwords or cookies: the one list, for the policy, the file tools and the sandbox.

The policy asks before they are read or changed, searches leave them out, and the sandbox hides those in a home folder.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping

#: Relative to a home folder, and as secret in any other folder.
STORES = (
    ".config/Bitwarden CLI/",
    *(
        ".ssh/ .gnupg/ .aws/ .azure/ .kube/ .oci/ .config/gcloud/ .config/doctl/ .config/hcloud/ .config/heroku/ "
        ".config/netlify/ .docker/config.json .config/containers/auth.json .netrc _netrc .git-credentials "
        ".config/git/credentials .config/gh/ .config/hub .config/glab-cli/ .pypirc .cargo/credentials .Xauthority "
        ".cargo/credentials.toml .gem/credentials .pgpass .my.cnf .mylogin.cnf .vault-token "
        ".terraform.d/credentials.tfrc.json .config/rclone/ .s3cfg .boto .local/share/keyrings/ .password-store/ "
        ".config/op/ .config/sops/ .config/age/ .config/solana/id.json .ethereum/keystore/ .mozilla/ "
        ".config/google-chrome/ .config/chromium/ .config/BraveSoftware/ .config/microsoft-edge/ .config/vivaldi/ "
        ".config/opera/ .thunderbird/ snap/firefox/ snap/chromium/ snap/thunderbird/ .var/app/org.mozilla.firefox/ "
        ".var/app/org.chromium.Chromium/ .var/app/com.google.Chrome/ .var/app/com.microsoft.Edge/ "
        ".var/app/org.mozilla.Thunderbird/ Library/Keychains/ .claude/.credentials.json .codex/auth.json "
        ".gemini/oauth_creds.json .config/github-copilot/ .local/share/opencode/auth.json .cache/huggingface/token "
        ".cache/huggingface/stored_tokens .huggingface/token .fly/config.yml .pulumi/credentials.json .databrickscfg "
        ".kaggle/ .config/kaggle/ .composer/auth.json .config/composer/auth.json .local/share/uv/credentials/ "
        ".config/stripe/ .local/share/com.vercel.cli/ .config/vercel/auth.json .supabase/access-token .railway/ "
        ".sentryclirc .cloudflared/ .config/.wrangler/config/ .wrangler/config/ .config/ngrok/ .ngrok2/ .config/scw/ "
        ".config/linode-cli .config/fly/ .aliyun/ .config/argocd/ .argocd/ .config/helm/registry/ .config/tea/ "
        ".terraformrc .ansible_vault_pass .vault_pass .step/secrets/ .step/authority/ .dbt/profiles.yml .snowsql/ "
        ".snowflake/ .config/snowflake/ .Renviron .jenkins-cli .msmtprc .config/msmtp/ .mbsyncrc .fetchmailrc "
        ".config/neomutt/ .config/evolution/ .local/share/evolution/ .config/filezilla/ .config/pypoetry/auth.toml "
        ".pub-cache/credentials.json .config/dart/pub-credentials.json .hex/hex.config .ivy2/.credentials "
        ".sbt/.credentials .nuget/NuGet/NuGet.Config .config/NuGet/NuGet.Config .expo/state.json .android/adbkey "
        ".appstoreconnect/private_keys/ .local/share/kwalletd/ .config/gh-copilot/ .config/sentry/ "
        ".qwen/oauth_creds.json .grok/user-settings.json .config/io.datasette.llm/keys.json .config/aichat/ "
        ".config/goose/secrets.yaml .config/google-chrome-beta/ .config/google-chrome-unstable/ "
        ".config/microsoft-edge-beta/ .config/microsoft-edge-dev/ .config/opera-beta/ .config/net.imput.helium/ "
        ".config/zen/ .zen/ .librewolf/ .waterfox/ .floorp/ .tor-browser/ snap/brave/ snap/opera/ "
        ".var/app/com.brave.Browser/ .var/app/com.vivaldi.Vivaldi/ .var/app/com.opera.Opera/ "
        ".var/app/io.gitlab.librewolf-community/ .var/app/app.zen_browser.zen/ .var/app/com.slack.Slack/ "
        ".var/app/org.signal.Signal/ .var/app/com.discordapp.Discord/ .var/app/com.bitwarden.desktop/ .config/Slack/ "
        ".config/Signal/ .config/discord/ .config/Element/ .config/Bitwarden/ .config/1Password/ .config/keepassxc/ "
        ".config/Cursor/User/globalStorage/ .config/Code/User/globalStorage/ .config/VSCodium/User/globalStorage/ "
        ".config/Windsurf/User/globalStorage/ .bitcoin/ .litecoin/ .electrum/ .config/Exodus/ .monero/ "
        ".config/borg/keys/ .config/restic/ .config/syncthing/ .local/state/syncthing/ .subversion/auth/ "
        ".local/share/remmina/ .config/remmina/ .config/rbw/ .local/share/rbw/ .config/tailscale/ .config/wireguard/"
    ).split(),
)
#: Relative to a home folder. In a project the same names are settings without secrets.
HOME_STORES = tuple(
    (
        ".npmrc .yarnrc.yml .m2/settings.xml .gradle/gradle.properties .claude.json .config/configstore/ "
        ".bundle/config .config/pip/pip.conf .pip/pip.conf .config/uv/uv.toml .continue/config.json "
        ".continue/config.yaml .m2/settings-security.xml .condarc .config/goose/config.yaml .config/crush/ "
        ".local/share/crush/ .config/amp/ .local/share/amp/ .cline/ .bash_history .zsh_history "
        ".local/share/fish/fish_history .local/share/atuin/ .python_history .psql_history .mysql_history "
        ".rediscli_history .node_repl_history .sqlite_history"
    ).split()
)
#: In any folder, known by their names alone.
KEY_FILES = (
    *"id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk .htpasswd *.kdb *.kdbx *.keychain".split(),
    *"*.keychain-db logins.json key4.db cookies.sqlite wallet.dat".split(),
    "login data",
    "cookies",
)
#: Files in these folders that hold no secret, and may be read.
OPEN_FILES = tuple(
    (
        ".aws/config .ssh/config .ssh/known_hosts* .ssh/authorized_keys .ssh/authorized_keys2 .ssh/environment "
        ".ssh/*.pub .kube/cache/"
    ).split()
)
#: Of the machine, as regular expressions of absolute paths.
OF_MACHINE = r"/etc/g?shadow-?|/etc/(?:sudoers|ssh/ssh_host_\w+_key)|/proc/[^/]*/environ|(?:/var)?/run/secrets(?:/.*)?"
#: Variables that name such a folder, or one that such are in, and what that is in a home folder.
_FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
    "CARGO_HOME": ".cargo",
    "DOCKER_CONFIG": ".docker",
    "GNUPGHOME": ".gnupg",
    "AZURE_CONFIG_DIR": ".azure",
    "CLOUDSDK_CONFIG": ".config/gcloud",
    "GH_CONFIG_DIR": ".config/gh",
    "GLAB_CONFIG_DIR": ".config/glab-cli",
    "PASSWORD_STORE_DIR": ".password-store",
    "GRADLE_USER_HOME": ".gradle",
    "CODEX_HOME": ".codex",
    "CLAUDE_CONFIG_DIR": ".claude",
    "COMPOSER_HOME": ".composer",
    "HF_HOME": ".cache/huggingface",
    "KAGGLE_CONFIG_DIR": ".kaggle",
    "POETRY_CONFIG_DIR": ".config/pypoetry",
    "SNOWFLAKE_HOME": ".snowflake",
    "PUB_CACHE": ".pub-cache",
}
#: Variables that name such a file, or several.
_FILES = tuple(
    (
        "KUBECONFIG GOOGLE_APPLICATION_CREDENTIALS AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE "
        "AWS_WEB_IDENTITY_TOKEN_FILE AZURE_FEDERATED_TOKEN_FILE NETRC PGPASSFILE PGSERVICEFILE PGSSLKEY "
        "NPM_CONFIG_USERCONFIG npm_config_userconfig NPM_CONFIG_GLOBALCONFIG npm_config_globalconfig PIP_CONFIG_FILE "
        "UV_CONFIG_FILE TWINE_CONFIG_FILE REGISTRY_AUTH_FILE HELM_REGISTRY_CONFIG TF_CLI_CONFIG_FILE BOTO_CONFIG "
        "RCLONE_CONFIG OCI_CLI_CONFIG_FILE DATABRICKS_CONFIG_FILE HF_TOKEN_PATH SOPS_AGE_KEY_FILE CONDARC "
        "R_ENVIRON_USER ANSIBLE_VAULT_PASSWORD_FILE MYSQL_TEST_LOGIN_FILE XAUTHORITY HISTFILE"
    ).split()
)


def stores_of(home: str, environ: Mapping[str, str], passed: Collection[str] = ()) -> Iterator[str]:
    """The paths that the list stands for: those in a home folder, and those that variables lead to.

    ``passed`` are variables that the owner gave to commands, with what they name.
    """
    names = [name.rstrip("/") for name in (*STORES, *HOME_STORES)]
    yield from (f"{home}/{name}" for name in names)
    for variable, folder in _FOLDERS.items():
        place = _absolute(environ.get(variable, ""))
        if place and variable not in passed:
            for name in names:
                if name == folder or name.startswith(f"{folder}/"):
                    yield place + name[len(folder) :]
    for variable in _FILES:
        if variable not in passed:
            yield from filter(None, map(_absolute, environ.get(variable, "").split(os.pathsep)))


def _absolute(value: str) -> str:
    """A path as a program would find it; empty for one that is no file of its own, such as ``/dev/null``."""
    path = os.path.normpath(value) if value else ""
    is_device = path == "/" or path.startswith(("/dev/", "/proc/", "/sys/"))
    return path if path.startswith("/") and not is_device else ""
