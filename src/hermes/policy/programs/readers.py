"""Programs that change nothing: for the mode in which an agent may only look around."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.programs.interpreters import INLINE
from hermes.policy.programs.wrappers import WRAPPERS
from hermes.policy.rules.targets import written_paths
from hermes.policy.shell.words import by_program, names

#: Whatever their arguments; files they could write to are named by ``written_paths`` or redirections.
_ALWAYS = names(
    "ls ll cat head tail less more wc nl tac rev cut paste tr sort uniq comm join diff cmp sdiff column fold fmt "
    "expand grep egrep fgrep zgrep rg ag ack awk gawk mawk jq yq xq gron sed find fd locate tree stat file du df pwd "
    "cd pushd popd basename dirname realpath readlink echo printf true false test [ [[ : seq date cal uname hostname "
    "whoami id groups users who w uptime free nproc lscpu lsblk lsusb lspci lsof ps pgrep pidof top vmstat iostat ss "
    "netstat dig nslookup host ping which whereis type command man help info apropos env printenv export set local "
    "declare typeset unset shopt alias hash ulimit umask history getent locale md5sum sha1sum sha256sum sha512sum "
    "shasum cksum b2sum xxd od hexdump strings nm objdump readelf ldd size otool base64 base32 zcat bzcat xzcat sleep "
    "wait exit return break continue shift read xargs watch tput clear tty stty getconf lsb_release sw_vers bat exa "
    "eza delta cloc tokei scc hyperfine shellcheck hadolint mapfile readarray let expr bc dc numfmt tsort look factor "
    "jobs times ip ifconfig dmesg journalctl mount eval source . trap yes timeout time nice"
)
#: Programs that change nothing with these first words.
_VERBS = by_program(
    {
        "git": "status log diff show blame grep ls-files ls-tree ls-remote rev-parse rev-list describe shortlog "
        "reflog cat-file name-rev merge-base for-each-ref show-ref check-ignore check-attr count-objects diff-tree "
        "diff-index whatchanged var version help cherry range-diff verify-commit verify-tag",
        "gh": "status",
        "docker podman": "ps images logs inspect version info stats top port history search events",
        "kubectl": "get describe logs top explain version cluster-info api-resources api-versions diff",
        "helm": "list status get show search history template version lint",
        "terraform": "plan validate show output version providers graph",
        "systemctl": "status is-active is-enabled is-failed list-units list-unit-files list-timers cat show "
        "list-dependencies",
        "npm": "ls list view outdated audit root prefix config-get explain why search help",
        "yarn": "list why info versions",
        "pnpm": "list ls why outdated",
        "pip": "list show freeze check debug index",
        "cargo": "tree metadata search version verify-project",
        "go": "list version env doc vet",
        "apt": "list show search policy",
        "apt-cache": "policy show search depends rdepends madison",
        "dpkg": "-l -L -s -S --list --listfiles --status --search",
        "rpm": "-q -qa -ql -qi -qf",
        "brew": "list info search outdated deps leaves config doctor",
        "conda": "list info search env",
        "hermes": "doctor version sessions usage logs --version --help",
        "crontab": "-l",
        "tmux": "ls list-sessions list-windows show-options display-message",
        "openssl": "version x509 s_client rand dgst",
        "aws": "sts",
        "sqlite3": "-version",
        "python": "-V --version",
        "node": "-v --version",
    }
)
#: Second words that make a command with these first words read-only.
_SECOND = {
    "git branch": "--list -l -a -r -v -vv --all --remotes --show-current --merged --no-merged --contains",
    "git tag": "--list -l -n --contains",
    "git remote": "-v --verbose show get-url",
    "git config": "--get --list -l --get-all --get-regexp get list",
    "git stash": "list show",
    "git worktree": "list",
    "git submodule": "status summary",
    **{f"gh {group}": "list view status diff checks" for group in names("pr issue run release repo workflow")},
    "npm config": "get list ls",
    "docker compose": "ps logs config images top ls version",
    "kubectl config": "view get-contexts current-context",
    "hermes config": "show get path",
    "terraform state": "list show",
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
    first = operands[0] if operands else ""
    if not names(_VERBS.get(program, "")).isdisjoint((first, *args[:1])):
        return True
    command = f"{program} {first}"
    if command in _SECOND:
        rest = args[args.index(first) + 1 :]
        lists_by_itself = command in ("git branch", "git tag", "git remote")
        return rest[0] in _SECOND[command].split() if rest else lists_by_itself
    # Inline code that is not harmless is found by its own rule; a script may do anything.
    return program.rstrip("0123456789.") in INLINE and bool({"-c", "-e", "-p", "-r", "-ne", "-pe"}.intersection(args))
