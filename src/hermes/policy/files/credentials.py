"""Files with keys, tokens, passwords or cookies: the one list, for the policy, the file tools and the sandbox.

The policy asks before they are read or changed, searches leave them out, and the sandbox hides those in a home folder.
"""

from __future__ import annotations

#: Relative to a home folder, and as secret in any other folder.
STORES = tuple(
    (
        ".ssh/ .gnupg/ .aws/ .azure/ .kube/ .oci/ .config/gcloud/ .config/doctl/ .config/hcloud/ .config/heroku/ "
        ".config/netlify/ .docker/config.json .config/containers/auth.json .netrc _netrc .git-credentials "
        ".config/git/credentials .config/gh/ .config/hub .config/glab-cli/ .pypirc .cargo/credentials "
        ".Xauthority .cargo/credentials.toml .gem/credentials .pgpass .my.cnf .mylogin.cnf .vault-token "
        ".terraform.d/credentials.tfrc.json .config/rclone/ .s3cfg .boto .local/share/keyrings/ .password-store/ "
        ".config/op/ .config/sops/ .config/age/ .config/solana/id.json .ethereum/keystore/ .mozilla/ "
        ".config/google-chrome/ .config/chromium/ .config/BraveSoftware/ .config/microsoft-edge/ .config/vivaldi/ "
        ".config/opera/ .thunderbird/ snap/firefox/ snap/chromium/ snap/thunderbird/ .var/app/org.mozilla.firefox/ "
        ".var/app/org.chromium.Chromium/ .var/app/com.google.Chrome/ .var/app/com.microsoft.Edge/ "
        ".var/app/org.mozilla.Thunderbird/ Library/Keychains/ .claude/.credentials.json .codex/auth.json "
        ".gemini/oauth_creds.json .config/github-copilot/ .local/share/opencode/auth.json .cache/huggingface/token "
        ".cache/huggingface/stored_tokens .huggingface/token .fly/config.yml .pulumi/credentials.json .databrickscfg "
        ".kaggle/ .config/kaggle/ .composer/auth.json .config/composer/auth.json .local/share/uv/credentials/ "
        ".config/stripe/ .local/share/com.vercel.cli/"
    ).split()
)
#: Relative to a home folder. In a project the same names are settings without secrets.
HOME_STORES = tuple(
    (
        ".npmrc .yarnrc.yml .m2/settings.xml .gradle/gradle.properties .claude.json .config/configstore/ .bundle/config"
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
