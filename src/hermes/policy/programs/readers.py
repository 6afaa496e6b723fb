"""Programs that change nothing, and what the others are called: for the modes that refuse changes or ask about them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hermes.policy.call import Call, read_options, without_version
from hermes.policy.programs.inline.interpreters import INLINE, has_code
from hermes.policy.programs.launchers import SHELLS
from hermes.policy.programs.wrappers import WRAPPERS
from hermes.policy.rules.targets import written_paths
from hermes.policy.shell.marks import shown
from hermes.policy.shell.words import by_program, names


def _word_sets(rows: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {program: names(words) for program, words in by_program(rows).items()}


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
_VERBS = _word_sets(
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
#: Words after these that keep a command read-only: all options of it are among them, and its first word.
_LISTS = "--list -l --merged --no-merged --contains --points-at"
_SECOND = {
    "git branch": f"-a -r -v -vv --all --remotes --show-current --sort --format {_LISTS}",
    "git tag": f"-n --sort --format {_LISTS}",
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
#: Options in front of the verb: those that take the next word, and the others.
_BEFORE_VERB = {
    program: (names(values), names(flags))
    for program, (values, flags) in by_program(
        {
            "git": ("-C --git-dir --work-tree --namespace", "--no-pager -P --bare --no-optional-locks"),
            "kubectl": ("-n --namespace --context --cluster --kubeconfig", ""),
            "helm": ("-n --namespace --kube-context", ""),
            "docker podman": ("-H --host -c --context", "-D"),
            "aws": ("--profile --region --output", ""),
            "gh": ("-R --repo", ""),
            "npm pnpm yarn": ("--prefix --cwd -C", "-s --silent"),
            "systemctl": ("", "--user --system --no-pager"),
        }
    ).items()
}
#: Words that make a command change something all the same.
_CHANGING_WORDS = {
    "npm audit": names("fix"),
    "go env": names("-w -u"),
    "git grep": names("-O"),
    "git branch": names("-m -M -c -C -d -D -f -u"),
}
#: Options of readers that name a file to write, or change one in place.
_FILE_OPTIONS = names(
    "output out output-file output-dir output-directory outfile in-place inplace fix log-file export-json export-csv "
    "export-markdown kill compile open-files-in-pager"
)
_FILE_LETTERS = by_program({"sort tree base64 base32": "o", "less": "oO", "yq xq": "i", "ss": "K", "file": "C"})
#: For these ``--output`` is a form, and no file.
_FORMS = names("df lsblk journalctl kubectl helm systemctl aws docker podman")
#: Readers that write their second operand, with the letters that take a value.
_SECOND_WRITTEN = {"uniq": "fsw", "xxd": "clsog"}
_FIND_CHANGES = re.compile(r"-(?:delete|exec\w*|ok\w*|fprint\w*|fls)$|^--?(?:x|X|exec|exec-batch)$")
_AWK_WRITES = re.compile(r"\bprintf?\b[^;}\n>]{0,200}>|\binplace\b")
#: The command ``w FILE``, alone or behind ``s/…/…/``.
_SED_WRITES = re.compile(r"(?<![a-fhj-lnoq-zA-HJ-LN-Z_\\])[wW]\s+\S")

_DEVICES = names("/dev/null /dev/stderr /dev/stdout /dev/tty")
_RAISING = names("sudo doas pkexec chroot nsenter unshare")
_SYSTEM_PROGRAM = re.compile(r"(?:/usr(?:/local)?|/opt/homebrew)?/s?bin/[^/]+")


def changes_nothing(call: Call) -> bool:
    """Whether a call only reads, as far as its arguments show."""
    return _DEVICES.issuperset(call.writes) and (not call.program or _only_reads(call))


def kind_of_change(call: Call) -> str:
    """The rule for a call that does not only read: ``edit``, or ``command:`` and a program with its verb."""
    if not call.program or (call.writes and _only_reads(call)):
        return "edit"
    name = shown(call.words[0]) if "/" in call.words[0] and not _is_system_program(call) else call.program
    if call.program in _VERBS or call.program in _BEFORE_VERB:
        words = _from_verb(call.program, call.args)[:1]
    elif call.program in SHELLS or without_version(call.program) in INLINE:
        # What it runs: a script, a module, or code.
        at = next((at for at, word in enumerate(call.args) if word in ("-m", "-c") or word[:1] != "-"), 0)
        words = call.args[at : at + (2 if call.args[at : at + 1] == ["-m"] else 1)]
    else:
        words = []
    return f"command:{' '.join([name, *map(shown, words)])}"


def _is_system_program(call: Call) -> bool:
    return _SYSTEM_PROGRAM.fullmatch(call.words[0]) is not None


def _only_reads(call: Call) -> bool:
    """The same without redirections."""
    program = call.program
    if written_paths(call) or ("/" in call.words[0] and not _is_system_program(call)):
        return False
    if program in WRAPPERS or program in SHELLS:
        return program not in _RAISING
    if program in ("curl", "wget") or _has_file_option(call):
        return False
    return _reads_by_program(call) if program in _ALWAYS else _reads_by_words(program, call.args)


def _has_file_option(call: Call) -> bool:
    letters = _FILE_LETTERS.get(call.program)
    if letters and call.options.has(letters):
        return True
    for word in call.args:
        if word[:1] == "-" and len(word) > 3:
            name = word.lstrip("-").partition("=")[0]
            if name in _FILE_OPTIONS and (name != "output" or call.program not in _FORMS):
                return True
    return False


def _reads_by_program(call: Call) -> bool:
    program, args = call.program, call.args
    match program:
        case "find" | "fd":
            return not any(_FIND_CHANGES.search(word) for word in args)
        case "awk" | "gawk" | "mawk":
            return not any(_AWK_WRITES.search(word) for word in args)
        case "sed":
            return not any(_SED_WRITES.search(word) for word in args)
        case "uniq" | "xxd":
            return len(read_options(args, _SECOND_WRITTEN[program]).operands) < 2
        case "date":
            return not any(word.startswith(("-s", "--set")) for word in args)
        case _:
            return True


def _from_verb(program: str, args: list[str]) -> list[str]:
    """The words from the verb on; nothing when an option in front of it is not known."""
    values, flags = _BEFORE_VERB.get(program, (frozenset[str](), frozenset[str]()))
    at = 0
    while at < len(args) and args[at].startswith("-"):
        if args[at] not in values and args[at] not in flags and "=" not in args[at]:
            return []
        at += 2 if args[at] in values else 1
    return args[at:]


def _reads_by_words(program: str, args: list[str]) -> bool:
    verbs = _VERBS.get(program) or _VERBS.get(without_version(program))
    if verbs is None:
        # Inline code that is not harmless is found by its own rule; a script may do anything.
        return has_code(program, args)
    rest = args if verbs.intersection(args[:1]) else _from_verb(program, args)
    command = f"{program} {rest[0]}" if rest else ""
    if not _CHANGING_WORDS.get(command, frozenset[str]()).isdisjoint(rest[1:]):
        return False
    if rest and rest[0] in verbs:
        return True
    return _reads_by_second(command, rest[1:]) if command in _SECOND else has_code(program, args)


def _reads_by_second(command: str, rest: list[str]) -> bool:
    lists_by_itself = command in ("git branch", "git tag", "git remote")
    if not rest:
        return lists_by_itself
    allowed = _SECOND[command].split()
    options = [word.partition("=")[0] for word in rest if word.startswith("-")]
    operands = [word for word in rest if not word.startswith("-")]
    if command in ("git branch", "git tag") and operands:
        return not names(_LISTS).isdisjoint(options)
    if command == "git remote" and operands and operands[0] not in allowed:
        return False
    return rest[0].partition("=")[0] in allowed and (not lists_by_itself or set(allowed).issuperset(options))
