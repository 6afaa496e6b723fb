"""Programs that change nothing: for the mode in which an agent may only look around."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.programs.interpreters import INLINE
from hermes.policy.programs.wrappers import WRAPPERS
from hermes.policy.rules.targets import written_paths
from hermes.policy.shell.words import names

#: Whatever their arguments; files they could write to are named by ``written_paths`` or redirections.
_ALWAYS = names(
    "ls ll cat head tail less more wc nl tac rev cut paste tr sort uniq comm join diff cmp sdiff column fold fmt "
    "expand grep egrep "
    "fgrep zgrep rg ag ack awk gawk mawk jq yq xq gron sed find fd locate tree stat file du df pwd cd pushd popd "
    "basename dirname "
    "realpath readlink echo printf true false test [ [[ : seq date cal uname hostname whoami id groups users who "
    "w uptime free "
    "nproc lscpu lsblk lsusb lspci lsof ps pgrep pidof top vmstat iostat ss netstat dig nslookup host ping which "
    "whereis type command "
    "man help info apropos env printenv export set local declare typeset unset shopt alias hash ulimit umask "
    "history getent locale md5sum sha1sum "
    "sha256sum sha512sum shasum cksum b2sum xxd od hexdump strings nm objdump readelf ldd size otool base64 "
    "base32 zcat bzcat xzcat "
    "sleep wait exit return break continue shift read xargs watch tput clear tty stty getconf lsb_release sw_vers "
    "bat exa eza delta "
    "cloc tokei scc hyperfine shellcheck hadolint mapfile readarray let expr bc dc numfmt tsort look factor jobs "
    "times ip ifconfig "
    "dmesg journalctl mount eval source . trap yes timeout time nice"
)
#: Programs that change nothing with these first words.
_VERBS: dict[str, frozenset[str]] = {
    "git": names(
        "status log diff show blame grep ls-files ls-tree ls-remote rev-parse rev-list describe shortlog reflog "
        "cat-file name-rev "
        "merge-base for-each-ref show-ref check-ignore check-attr count-objects diff-tree diff-index whatchanged "
        "var version help cherry "
        "range-diff verify-commit verify-tag"
    ),
    "gh": names("status"),
    "docker": names("ps images logs inspect version info stats top port history search events"),
    "podman": names("ps images logs inspect version info stats top port history search events"),
    "kubectl": names("get describe logs top explain version cluster-info api-resources api-versions diff"),
    "helm": names("list status get show search history template version lint"),
    "terraform": names("plan validate show output version providers graph"),
    "systemctl": names(
        "status is-active is-enabled is-failed list-units list-unit-files list-timers cat show list-dependencies"
    ),
    "npm": names("ls list view outdated audit root prefix config-get explain why search help"),
    "yarn": names("list why info versions"),
    "pnpm": names("list ls why outdated"),
    "pip": names("list show freeze check debug index"),
    "cargo": names("tree metadata search version verify-project"),
    "go": names("list version env doc vet"),
    "apt": names("list show search policy"),
    "apt-cache": names("policy show search depends rdepends madison"),
    "dpkg": names("-l -L -s -S --list --listfiles --status --search"),
    "rpm": names("-q -qa -ql -qi -qf"),
    "brew": names("list info search outdated deps leaves config doctor"),
    "conda": names("list info search env"),
    "hermes": names("doctor version sessions usage logs --version --help"),
    "crontab": names("-l"),
    "tmux": names("ls list-sessions list-windows show-options display-message"),
    "openssl": names("version x509 s_client rand dgst"),
    "aws": names("sts"),
    "sqlite3": names("-version"),
    "python": names("-V --version"),
    "node": names("-v --version"),
}
#: Second words that make a command with one of these first words read-only.
_SECOND: dict[tuple[str, str], frozenset[str]] = {
    ("git", "branch"): names("--list -l -a -r -v -vv --all --remotes --show-current --merged --no-merged --contains"),
    ("git", "tag"): names("--list -l -n --contains"),
    ("git", "remote"): names("-v --verbose show get-url"),
    ("git", "config"): names("--get --list -l --get-all --get-regexp get list"),
    ("git", "stash"): names("list show"),
    ("git", "worktree"): names("list"),
    ("git", "submodule"): names("status summary"),
    **{
        ("gh", group): names("list view status diff checks")
        for group in ("pr", "issue", "run", "release", "repo", "workflow")
    },
    ("npm", "config"): names("get list ls"),
    ("docker", "compose"): names("ps logs config images top ls version"),
    ("kubectl", "config"): names("view get-contexts current-context"),
    ("hermes", "config"): names("show get path"),
    ("terraform", "state"): names("list show"),
}
_FIND_CHANGES = re.compile(r"-(?:delete|exec\w*|ok\w*|fprint\w*|fls)$|^--?(?:x|X|exec|exec-batch)$")


_DEVICES = names("/dev/null /dev/stderr /dev/stdout /dev/tty")
_RAISING = names("sudo doas pkexec chroot nsenter unshare")


def changes_nothing(call: Call) -> bool:
    """Whether a call only reads, as far as its arguments show."""
    if not _DEVICES.issuperset(call.writes):
        return False
    program = call.program
    if not program or written_paths(call):
        return not program
    known = _by_program(program, call.args)
    return _by_words(program, call.args) if known is None else known


def _by_program(program: str, args: list[str]) -> bool | None:
    """Whether a program only reads, for those that need no look at their first words."""
    if program in ("find", "fd") and any(_FIND_CHANGES.search(word) for word in args):
        return False
    if program in ("curl", "wget"):
        return False
    if program in _ALWAYS:
        return not (program == "date" and any(word.startswith(("-s", "--set")) for word in args))
    if program in WRAPPERS or program in ("bash", "sh", "zsh", "dash"):
        return program not in _RAISING
    return None


def _by_words(program: str, args: list[str]) -> bool:
    operands = [word for word in args if not word.startswith("-")]
    verbs = _VERBS.get(program)
    if verbs is not None and not verbs.isdisjoint((*operands[:1], *args[:1])):
        return True
    second = _SECOND.get((program, operands[0])) if operands else None
    if second is not None:
        rest = args[args.index(operands[0]) + 1 :]
        lists_by_itself = program == "git" and operands[0] in ("branch", "tag", "remote")
        return not second.isdisjoint(rest[:1]) if rest else lists_by_itself
    # Inline code that is not harmless is found by its own rule; a script may do anything.
    return program.rstrip("0123456789.") in INLINE and bool({"-c", "-e", "-p", "-r", "-ne", "-pe"}.intersection(args))
