"""Options by which a program starts another: which of its words are command lines."""

from __future__ import annotations

import re

from hermes.policy.call import Call
from hermes.policy.files.git_keys import names_command, names_place
from hermes.policy.shell.marks import is_known
from hermes.policy.shell.words import by_program, names

#: Options whose value is a command line. Long names may be abbreviated, as most programs allow.
_TEXT_OPTIONS = by_program(
    {
        "su runuser script flock nix vagrant": "-c --command",
        "sg capsh": "-c",
        "nix-shell": "--run --command",
        "npm npx": "-c --call",
        "env": "-S --split-string",
        "rsync": "-e --rsh --rsync-path",
        "scp sftp": "-S -D",
        "tar gtar": "-I --use-compress-program --to-command --rsh-command --info-script --new-volume-script "
        "--rmt-command -F",
        "bsdtar": "--use-compress-program",
        "cpio": "--rsh-command",
        "man": "-P --pager -H",
        "zip": "-TT --unzip-command",
        "split gsplit": "--filter",
        "sort gsort": "--compress-program",
        "nodemon": "-x --exec",
        "watchexec": "--",
        "xterm konsole": "-e",
        "gnome-terminal": "-e --command",
        "ncat": "-c --sh-exec -e --exec",
        "nc": "-c -e",
        "hyperfine": "-p --prepare -s --setup -c --cleanup --conclude",
        "git": "-x --exec --upload-pack --receive-pack --extcmd --open-files-in-pager --tree-filter --index-filter "
        "--env-filter --msg-filter --commit-filter --parent-filter --sendmail-cmd --smtp-server --to-cmd --cc-cmd "
        "--header-cmd",
        "rg": "--pre --hostname-bin",
        "fzf": "--preview --bind",
        "sk skim": "--preview --bind -c --cmd",
        "ansible ansible-console": "-a --args",
        "bat delta gh systemctl journalctl mysql psql": "--pager",
        "salt-ssh knife": "-r --raw",
        "repo": "-c",
        "west": "-c",
        "cargo": "-s --shell",
        "helm": "--post-renderer",
        "tcpdump": "-z",
        "dnsmasq": "--dhcp-script",
        "openvpn": "--up --down --route-up --client-connect --client-disconnect --tls-verify --auth-user-pass-verify",
        "dhclient": "-sf",
        "pppd": "connect disconnect",
        "gcloud": "--command",
        "fly flyctl": "-C --command",
        "go": "-exec -toolexec -vettool --exec --toolexec --vettool",
        "complete compgen": "-C",
        "wget": "--use-askpass",
        "mutt neomutt": "-e",
        "rclone": "--password-command",
        "restic": "--password-command",
        "borg": "--rsh --remote-path --content-from-command",
        "gpg gpg2": "--photo-viewer",
        "bazel bazelisk": "--run_under",
        "dpkg-buildpackage debuild": "--check-command --sign-command -r -p",
        "entr": "-s",
    }
)
#: Options that are followed by a command: all words after them.
_REST_OPTIONS = by_program(
    {
        "just nix": "-c --command",
        "xterm urxvt rxvt st alacritty kitty foot konsole lxterminal wezterm": "-e",
        "xfce4-terminal mate-terminal terminator": "-x",
        "gnome-terminal": "-x --",
    }
)
#: Options whose value is the program and its arguments, separated by commas.
_COMMA_OPTIONS = by_program({"gcc g++ cc c++ clang clang++ gfortran": "-wrapper"})
#: Options whose value is a command line only when it begins with a bar.
_PIPE_OPTIONS = by_program({"strace": "-o --output"})
_GIT_ALIAS = re.compile(r"alias\..+", re.IGNORECASE)
_SSH_COMMANDS = re.compile(
    r"(?:-o)?(?:proxy|local|remote|knownhosts|authorizedkeys|pkcs11)command\s*[= ]\s*(.*)", re.IGNORECASE | re.DOTALL
)
_MOST_RESTS = 3
#: ``LocalCommand=``: a shorter word holds no command.
_SHORTEST_SETTING = 13
#: Settings of cargo, in ``--config KEY=VALUE`` or in a variable.
_CARGO_COMMANDS = re.compile(
    r"(?:target\..*\.(?:runner|linker)|build\.(?:rustc|rustc-wrapper|rustc-workspace-wrapper|rustdoc)|doc\.browser"
    r"|credential-alias\..*|registr(?:y|ies\..*)\.credential-provider)\s*=\s*(.*)",
    re.DOTALL,
)
_CARGO_WORD = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'")
_EDITORS = names("vi vim nvim ex view gvim rvim vimdiff ed less more")
_EDITOR_SHELL = re.compile(r"^[+:\s]*(?:!|(?:silent|execute|exe)\s*!?\s*['\"]?!|call system\()(.*)", re.DOTALL)
#: Code of an editor's languages: the first text in it.
_EDITOR_CODE = re.compile(r"^[+:\s]*(?:lua|py3?|python3?|perl|ruby)\b[^'\"]*['\"]([^'\"]*)")
#: ``$(shell COMMAND)`` in a value for make.
_MAKE_SHELL = re.compile(r"\$[({]shell\s+(.*)[)}]|\$[({]eval\s+.*?[:;=]\s*(.*)[)}]", re.DOTALL)
#: Variables of make that hold a program.
_MAKE_PROGRAM = re.compile(
    r"(?:SHELL|CC|CXX|CPP|LD|AR|AS|NM|RANLIB|STRIP|FC|F77|OBJCOPY|INSTALL|RM|CP|MV|LN|MKDIR|MAKE|PYTHON|GO|CARGO|RUSTC|NPM"
    r"|NODE|JAVAC?|DOCKER|TAR|SED|AWK|LEX|YACC|BISON|PERL|RUBY|HOSTCC|\w*_(?:CMD|COMMAND|PROGRAM|WRAPPER|LAUNCHER|RUNNER))"
)


def texts_among(call: Call) -> list[str]:
    """The words of a call that are command lines."""
    program = call.program
    options = _TEXT_OPTIONS.get(program)
    found = option_values(call, options.split()) if options else []
    if options := _PIPE_OPTIONS.get(program):
        found += [value.lstrip("|! ") for value in option_values(call, options.split()) if value[:1] in ("|", "!")]
    if options := _REST_OPTIONS.get(program):
        # The first of them may be a value of another option.
        places = [at for at, word in enumerate(call.args) if word in options.split()][:_MOST_RESTS]
        found += [" ".join(map(_as_word, call.args[at + 1 :])) for at in places]
    if options := _COMMA_OPTIONS.get(program):
        found += [value.replace(",", " ") for value in option_values(call, options.split())]
    for word in call.args:
        if len(word) < _SHORTEST_SETTING:
            continue
        if match := _SSH_COMMANDS.fullmatch(word):
            found.append(match.group(1))
        if word.startswith("--checkpoint-action=exec="):
            found.append(word[25:])
    for word in call.args if program in _EDITORS else ():
        if match := _EDITOR_SHELL.match(word) or _EDITOR_CODE.match(word):
            found.append(match.group(1))
    special = _SPECIAL.get(program)
    if special is not None:
        found += special(call.args)
    return [text for text in found if text and is_known(text[:1])]


def option_values(call: Call, options: list[str]) -> list[str]:
    """The values of options with one or two dashes, in all their spellings."""
    args, found = call.args, list[str]()
    for at, word in enumerate(args):
        following = args[at + 1] if at + 1 < len(args) else ""
        name, equals, value = word.partition("=")
        if name in options or _abbreviates(name, options):
            found.append(value if equals else following)
        else:
            found += [word[2:] for short in options if len(short) == 2 and word.startswith(short) and not equals]
            found += [following for short in options if _is_cluster(word, short)]
    return found


def _abbreviates(name: str, options: list[str]) -> bool:
    """``--use-comp`` is ``--use-compress-program``."""
    return len(name) > 6 and name.startswith("--") and any(option.startswith(name) for option in options)


def _is_cluster(word: str, short: str) -> bool:
    """``-qc`` ends in ``-c``."""
    return (
        len(short) == 2 and len(word) > 2 and word[0] == "-" != word[1] and word[1:].isalpha() and word[-1] == short[1]
    )


def git_setting(key: str, value: str) -> str:
    """The command line that a setting makes git run; empty for other settings."""
    if _GIT_ALIAS.fullmatch(key):
        return value[1:] if value.startswith("!") else f"git {value}"
    return value.removeprefix("!") if names_command(key) else ""


def git_loads(key: str, value: str) -> bool:
    """Whether a setting names a file or folder from which git takes programs."""
    return bool(value) and value != "/dev/null" and names_place(key)


def git_settings(args: list[str]) -> list[tuple[str, str]]:
    """The settings that a call of git gives it: ``-c KEY=VALUE`` and ``--config KEY=VALUE``."""
    found: list[tuple[str, str]] = []
    for at, word in enumerate(args):
        if word in ("-c", "--config") and at + 1 < len(args):
            setting = args[at + 1]
        elif word.startswith(("--config=", "-c")):
            setting = word.removeprefix("--config=").removeprefix("-c")
        else:
            continue
        key, equals, value = setting.partition("=")
        found += [(key, value)] if equals else []
    return found


def _git(args: list[str]) -> list[str]:
    found = [word[2:] for word in args if word.startswith("-O") and "grep" in args]
    found += [git_setting(key, value) for key, value in git_settings(args)]
    found += [word[1:] for word in args if word.startswith("!")]
    found += args[args.index("-u") + 1 :][:1] if "clone" in args and "-u" in args else []
    for word in args:
        if word.startswith("ext::"):  # blanks inside its words are written "% "
            found.append(" ".join(f"'{part}'".replace("%", " ") for part in word[5:].replace("% ", "%").split()))
    for first, second in (("submodule", "foreach"), ("bisect", "run")):
        if first in args and second in args:
            found.append(_line([word for word in args[args.index(second) + 1 :] if word != "--recursive"]))
    return found


def _line(words: list[str]) -> str:
    """Words of a program as a command line; a single one is a command line of its own."""
    return " ".join(map(_as_word, words)) if words[1:] else "".join(words)


def _as_word(word: str) -> str:
    """A word of a list, quoted when a shell would split it."""
    return f"'{word}'" if re.search(r"\s", word) and "'" not in word else word


def _cargo(args: list[str]) -> list[str]:
    found: list[str] = []
    for word in args:
        if match := _CARGO_COMMANDS.fullmatch(word.removeprefix("--config=")):
            parts = [first or second for first, second in _CARGO_WORD.findall(match.group(1))]
            found.append(" ".join(parts) or match.group(1))
    return found


def make_values(args: list[str]) -> list[str]:
    """The command lines in ``NAME=value`` for make."""
    found: list[str] = []
    for word in args:
        name, equals, value = word.partition("=")
        name = name.rstrip(":?+!")
        if equals and _MAKE_PROGRAM.fullmatch(name):
            found.append(value)
        if "$" in value or word.startswith("$"):
            found += [first or second for first, second in _MAKE_SHELL.findall(word)]
    return found


def _cmake(args: list[str]) -> list[str]:
    """``cmake -E``: portable commands that are named almost as in a shell."""
    if args[:1] != ["-E"] or len(args) < 3:
        return []
    verb, rest = args[1], " ".join(map(_as_word, args[2:]))
    if verb in ("remove_directory", "remove"):
        return [f"rm -r {rest}"]
    if verb == "chdir":
        return [" ".join(map(_as_word, args[3:]))]
    return [f"{verb} {rest}"] if verb in ("rm", "env", "time", "tar", "rename", "copy_directory") else []


#: Words behind which a program takes a command that it runs in each of several folders, or in one.
_EXEC_VERBS = names("exec forall foreach run-each each shell super dlx")
_STORED_SCRIPT = re.compile(r"scripts?[.\[]['\"]?[\w:.-]+['\"]?\]?=(.*)", re.DOTALL)


def _behind_verb(args: list[str]) -> list[str]:
    """The command behind ``exec`` and its like, and scripts that the program stores for later."""
    at = next((at for at, word in enumerate(args[:6]) if word in _EXEC_VERBS), None)
    rest = args[at + 1 :] if at is not None else []
    while rest and rest[0].startswith("-"):
        rest = rest[1:]
    found = [_line(rest)] if rest else []
    if "set-script" in args[:2]:
        found += args[args.index("set-script") + 2 :][:1]
    return found + [match.group(1).strip("\"'") for match in map(_STORED_SCRIPT.fullmatch, args) if match]


def _mvn(args: list[str]) -> list[str]:
    """``mvn exec:exec``: the program and its arguments are properties."""
    given = {word[2:].partition("=")[0]: word.partition("=")[2] for word in args if word.startswith("-Dexec.")}
    return [f"{given['exec.executable']} {given.get('exec.args', '')}"] if "exec.executable" in given else []


_SPECIAL = by_program(
    {
        "git hub": _git,
        "cargo cross": _cargo,
        "make gmake": make_values,
        "cmake": _cmake,
        "lerna nx meta rush jj repo west gita mr vcs mani npm npx pnpm yarn bun bunx": _behind_verb,
        "mvn mvnw": _mvn,
    }
)
