"""Files with keys, tokens, passwords or cookies: the one list, for the policy, the file tools and the sandbox.

The policy asks before they are read or changed, searches leave them out, and the sandbox hides those in a home folder.
"""

from __future__ import annotations

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
