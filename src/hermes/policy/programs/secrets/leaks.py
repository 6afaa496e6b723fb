"""Secrets: where they come from, and the programs that show them or send them away (taint analysis)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hermes.policy.call import Call
from hermes.policy.programs.secrets.private import (
    is_data,
    is_private,
    prints_private,
    publishes,
    sends,
    sends_archive,
    sent_files,
)
from hermes.policy.programs.secrets.remotes import pushes_away
from hermes.policy.programs.secrets.searches import filters_secrets, searches_for_keys
from hermes.policy.programs.secrets.stores import prints_secret
from hermes.policy.rules.targets import written_paths
from hermes.policy.shell.flow import PRIVATE_FILE
from hermes.policy.shell.marks import PRIVATE, SECRET, TOKEN, taint_of, worst_taint
from hermes.policy.shell.state import is_secret_name
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: Programs that send what they are given to another machine.
_SENDERS = names(
    "curl wget nc ncat netcat socat ssh scp rsync sftp ftp lftp tftp telnet http https xh httpie hurl aria2c mail "
    "mailx sendmail mutt msmtp swaks dig nslookup host drill kdig ping ping6 traceroute fping aws gsutil gcloud az "
    "azcopy rclone mc s3cmd s5cmd b2 gh glab hub croc wormhole ffsend transfer websocat wscat grpcurl curlie wget2 "
    "lwp-request irc irssi kcat kafkacat mosquitto_pub redis-cli mongosh psql mysql nats ipfs magic-wormhole smbclient "
    "ldapsearch dnscat iodine ssh-copy-id rcp finger whois logger pastebinit tailscale hping3 doctl vercel netlify"
)
#: Senders for which a name of a file is a setting or a key to sign in with, not what they send.
_KEYED = names(
    "ssh autossh sftp mosh aws gcloud az gh glab psql mysql mongosh redis-cli doctl vercel netlify ssh-copy-id"
)
#: Commands of such programs that send files.
_UPLOADS = names("cp mv sync put upload put-object gist release copy copyto move rsync storage send blob s3 s3api")
#: Programs that show nothing of a file's content, or use it for signing in.
_BLIND = names(
    "ls ll stat test [ [[ find fd du tree file chmod chown chgrp touch mkdir rmdir rm unlink cd pushd basename dirname "
    "realpath readlink ssh ssh-add ssh-keygen ssh-agent ssh-keyscan autossh mosh git hub kubectl helm k9s oc docker "
    "podman docker-compose nerdctl terraform tofu ansible ansible-playbook psql mysql source . export set unset env "
    "echo printf wc sha256sum shasum md5sum cmp true false sleep which type command alias complete cat-file npm npx "
    "yarn pnpm node python pip uv poetry make cargo go dotenv direnv sops age vagrant packer pulumi gcloud aws az "
    "serverless sam cdk mkdir mount umount lsattr getfacl code vim vi nano emacs open xdg-open hermes sudo doas env "
    "time timeout nice nohup setsid exec xargs for history kill hash trap read shift return exit"
)
#: Headers and options that carry a token where it belongs.
_AUTHORIZATION = re.compile(
    r"\s*(?:proxy-)?(?:authorization|x-[\w-]*(?:key|token|auth)[\w-]*|private-token|job-token|api-?key|[\w-]*-(?:token|key))\s*:"
    r"|(?:header|authorization)\s*[:=]|(?-i:--(?:oauth2|token|password|user|auth|bearer)|-u)",
    re.IGNORECASE,
)
_SIGN_IN = names(
    "-u --user --oauth2-bearer --proxy-user -A --auth -a --password --token --bearer --http-password -k --key"
)
_PRINTS_TOKEN = re.compile(
    r"gcloud auth (?:application-default )?print|gh auth token|glab auth|az account get-access-token|aws eks get-token"
    r"|aws ecr(?:-public)? get-login|doctl registry|oc whoami -t|kubectl create token|heroku auth:token|bw get"
    r"|op (?:read|item get)|pass (?:show )?\S|secret-tool lookup|lpass show|keyring get|vault print token"
)
_PRINTS_SECRET = re.compile(
    r"aws (?:secretsmanager get-secret|ssm get-parameter|configure export|iam create-access-key)"
    r"|aws sts (?:get-session|assume-role)|vault (?:kv get|read)|gcloud secrets versions access|az keyvault secret show"
    r"|gpg2? .*--export-secret|(?:kubectl|oc) .*\bsecrets?\b|docker (?:secret|config) inspect|heroku config"
    r"|security (?:find-(?:generic|internet)-password|dump-keychain|export)|doppler secrets|git credential fill"
    r"|infisical (?:secrets|export)|chamber (?:read|export)|bw (?:export|list)|op (?:document|vault) get"
    r"|sops (?:-d|--decrypt|decrypt)|age (?:-d|--decrypt)|ansible-vault (?:view|decrypt)|flyctl ssh|railway variables"
    r"|terraform (?:output -json|state pull)|vercel env pull|netlify env:list|keepassxc-cli (?:show|export)"
)
_ALWAYS_ASKED = re.compile(
    r"security (?:dump-keychain|export)|gpg2? .*--export-secret|keepassxc-cli export|bw export|mimikatz|secretsdump"
)
_REMOTE_PLACE = re.compile(r"(?:[\w.-]+@)?[\w.-]+:(?!//)\S*")
#: An address of socat that is a file.
_FILE_ADDRESS = re.compile(r"(?:file|g?open|create|rdonly):([^,]+)", re.IGNORECASE)
_ADDRESS = re.compile(r"\w+://(?!localhost|127\.|\[::1\]|0\.0\.0\.0)")


def secret_output(call: Call) -> str:
    """The taint of what a program prints by itself: the environment, a store of secrets, a token."""
    program, args = call.program, call.args
    if program in ("export", "declare", "typeset"):
        return TOKEN if args == ["-p"] else ""
    if program == "printenv" and args:
        return TOKEN if any(map(is_secret_name, args)) else ""
    if program in ("env", "printenv", "set", "compgen"):
        return SECRET if all(word.startswith("-") for word in args) else ""
    if program not in _STORES:
        return SECRET if prints_secret(call) else PRIVATE if prints_private(call) else ""
    line = " ".join((program, *args))
    if _PRINTS_TOKEN.match(line):
        return TOKEN
    if _PRINTS_SECRET.match(line) or prints_secret(call):
        return SECRET
    return PRIVATE if prints_private(call) else ""


_STORES = names(
    "gcloud gh glab az aws doctl oc kubectl heroku op pass bw secret-tool lpass keyring vault gpg gpg2 docker security "
    "doppler infisical chamber git sops age ansible-vault terraform railway vercel netlify keepassxc-cli flyctl"
)


def check_secrets(shell: Shell, call: Call) -> str:
    """Report secrets that a call shows or sends; returns the taint of its output."""
    _check_private(shell, call)
    arguments = [word for word in call.args if SECRET in word or TOKEN in word]
    files = _secret_files(shell, call)
    program = call.program
    is_sender = program in _SENDERS or (program == "openssl" and "s_client" in call.args)
    if is_sender:
        _check_sender(shell, call, arguments, files)
    elif (call.stdin.taint not in ("", PRIVATE) or arguments) and any(map(_ADDRESS.match, call.args)):
        shell.report("send-credentials", call.source)
    _report_files(shell, call, files, sends=is_sender)
    is_shown = files and not is_sender and (program not in _BLIND or arguments)
    passed_on = [] if is_sender else [taint_of(word) for word in (*arguments, call.stdin.taint)]
    return worst_taint([SECRET if is_shown else "", *passed_on, secret_output(call)])


def _check_private(shell: Shell, call: Call) -> None:
    """Report private data that is sent; remember the files that it is packed into."""
    if pushes_away(shell.state.remotes, call) or publishes(call):
        shell.report("send-private", call.source)
    if sends(call):
        known = shell.state.files
        flows = [known.get(call.paths.resolve(path)) for path in sent_files(call)] if known else []
        if (
            PRIVATE in (call.stdin.taint, *(flow.taint for flow in flows if flow is not None))
            or any(PRIVATE in word for word in call.args)
            or any(is_private(call, path) or is_data(path) for path in sent_files(call))
            or sends_archive(call)
        ):
            shell.report("send-private", call.source)
    elif prints_private(call):
        for path in written_paths(call):
            shell.state.files[call.paths.resolve(path)] = PRIVATE_FILE


def _report_files(shell: Shell, call: Call, files: list[str], *, sends: bool) -> None:
    """Report the secret files that a call reads, by their kinds."""
    program = call.program
    if files and program == "git" and not {"add", "commit", "stage"}.isdisjoint(call.args[:4]):
        shell.report("send-credentials", call.source)
    if program not in _BLIND and not (sends and program in _KEYED):
        for kind in dict.fromkeys(files):
            shell.report(kind, call.source)
    line = " ".join((program, *call.args)) if program in _STORES else ""
    if _ALWAYS_ASKED.match(line) or (
        not shell.state.captured
        and (prints_secret(call) or _shows_variable(call, contained=shell.state.contained) or filters_secrets(call))
    ):
        shell.report("read-credentials", call.source)
    if searches_for_keys(call):
        shell.report("read-credentials", call.source)


def _shows_variable(call: Call, *, contained: bool) -> bool:
    """Whether a call prints a secret variable, or all of a service's: that is where a container has its passwords."""
    match call.program:
        case "printenv" if call.args:
            return any(map(is_secret_name, call.args))
        case "env" | "printenv":
            return contained and not call.options.operands
        case "echo" | "printf":
            return not call.writes and any(TOKEN in word for word in call.args)
        case _:
            return False


def _check_sender(shell: Shell, call: Call, arguments: list[str], files: list[str]) -> None:
    keyed = call.program in _KEYED and _UPLOADS.isdisjoint(call.args)
    leaks = call.stdin.taint not in ("", PRIVATE) and not (
        call.stdin.taint == TOKEN and "--password-stdin" in call.args
    )
    shows = bool(files) or any(SECRET in word or _is_exposed(call, word) for word in arguments)
    if leaks or (shows and not keyed):
        shell.report("send-credentials", call.source)


def _is_exposed(call: Call, word: str) -> bool:
    """Whether a token is sent somewhere else than where a service expects its own token."""
    at = call.args.index(word)
    return _AUTHORIZATION.match(word) is None and (at == 0 or call.args[at - 1] not in _SIGN_IN)


def _secret_files(shell: Shell, call: Call) -> list[str]:
    """The kinds of secret files that a call reads."""
    paths, known = call.paths, shell.state.files
    found: list[tuple[str, str]] = []
    for path in _named_files(call.args):
        flow = known.get(paths.resolve(path)) if known else None
        kind = paths.secret_kind(path) or ("read-credentials" if flow is not None and flow.taint == SECRET else None)
        if kind is not None:
            found.append((path, kind))
    written = {paths.resolve(path) for path in [*call.writes, *written_paths(call)]} if found else ()
    return [kind for path, kind in found if not written or paths.resolve(path) not in written]


def _named_files(args: Iterable[str]) -> Iterable[str]:
    """The words that may name a local file: as such, after ``=``, after ``@`` or ``<``."""
    for word in args:
        if word.startswith("file://"):
            yield word[7:]
            continue
        if "://" in word or len(word) > 1_000:
            continue
        if address := _FILE_ADDRESS.match(word):
            yield address.group(1)
        elif "=" in word:
            value = word.partition("=")[2]
            yield value.lstrip("@<")
        elif word[:1] in "@<":
            yield word[1:]
        elif not word.startswith("-") and not (_REMOTE_PLACE.fullmatch(word) and not word.startswith((".", "/", "~"))):
            yield word
