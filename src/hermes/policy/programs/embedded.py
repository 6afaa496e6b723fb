"""Command lines in the arguments of programs that are not shells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.policy.call import Call
from hermes.policy.programs.launchers import run_flow, run_text
from hermes.policy.shell.marks import is_known
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: ParsedOptions whose value is a command line.
_TEXT_OPTIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(names("su runuser script flock nix vagrant"), ("-c", "--command")),
    **dict.fromkeys(("sg", "capsh"), ("-c",)),
    "nix-shell": ("--run", "--command"),
    **dict.fromkeys(("npm", "npx"), ("-c", "--call")),
    "env": ("-S", "--split-string"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-S",),
    "tar": ("-I", "--use-compress-program", "--to-command", "--rsh-command", "--info-script", "--new-volume-script"),
    "bsdtar": ("--use-compress-program",),
    "man": ("-P", "--pager", "-H"),
    "zip": ("-TT", "--unzip-command"),
    "split": ("--filter",),
    "sort": ("--compress-program",),
    "nodemon": ("-x", "--exec"),
    "watchexec": ("--",),
    **dict.fromkeys(("xterm", "konsole"), ("-e",)),
    "gnome-terminal": ("-e", "--command"),
    "ncat": ("-c", "--sh-exec", "-e", "--exec"),
    "nc": ("-c", "-e"),
    "hyperfine": ("-p", "--prepare", "-s", "--setup", "-c", "--cleanup"),
    "git": ("--exec", "-x", "--upload-pack", "--receive-pack", "--extcmd", "--tree-filter", "--index-filter"),
    **dict.fromkeys(("make", "gmake"), ("--eval",)),
}
#: Settings of git, as in ``git -c KEY=VALUE``, whose value is a command line.
_GIT_COMMANDS = re.compile(
    r"(?:alias\.[^=]+=!|core\.(?:sshcommand|pager|editor|fsmonitor|gitproxy|askpass)=|credential\.[^=]*helper=!?"
    r"|diff\.external=|pager\.\w+=|sequence\.editor=|gpg\.program="
    r"|(?:filter|difftool|mergetool|diff|merge)\.[^=]*(?:clean|smudge|cmd|textconv|command)=)(.*)",
    re.IGNORECASE | re.DOTALL,
)
_SSH_COMMANDS = re.compile(r"(?:-o)?(?:proxy|local|knownhosts)command\s*[= ]\s*(.*)", re.IGNORECASE | re.DOTALL)
_EDITORS = names("vi vim nvim ex view gvim rvim vimdiff ed less more")
_EDITOR_SHELL = re.compile(r"^[+:\s]*(?:!|(?:silent|execute|exe)\s*!?\s*['\"]?!|call system\()(.*)", re.DOTALL)

#: Programs with a language of their own in which a line may be a shell command.
_ESCAPES = re.compile(r"^\s*(?:\\!|!|\.(?:shell|system)\s|(?:shell|system|sh)\s)\s*(.+)", re.MULTILINE)
_HAVE_ESCAPES = names("psql mysql mariadb sqlite3 sqlite ftp sftp lftp ed ex gdb bc mail mailx cqlsh duckdb telnet")
_SED = names("sed gsed")
_SED_RUNS = re.compile(
    r"(?:^|[;{}\n\d$/])\s*e\s+(?P<run>.+)|s(?P<sep>[^\w\s]).*?(?P=sep)(?P<put>.*?)(?P=sep)[gpiIm\d]*e", re.DOTALL
)


def texts_among(call: Call) -> list[str]:
    """The values of options that are command lines."""
    options, args = _TEXT_OPTIONS.get(call.program, ()), call.args
    found: list[str] = []
    for at, word in enumerate(args):
        following = args[at + 1] if at + 1 < len(args) else ""
        name, equals, value = word.partition("=")
        if name in options:
            found.append(value if equals else following)
        else:
            found += [word[2:] for short in options if len(short) == 2 and word.startswith(short) and not equals]
            found += [following for short in options if _is_cluster(word, short)]
        if match := _SSH_COMMANDS.fullmatch(word):
            found.append(match.group(1))
        if name == "--checkpoint-action" and value.startswith("exec="):
            found.append(value[5:])
        if call.program in _EDITORS and (match := _EDITOR_SHELL.match(word)):
            found.append(match.group(1))
    found += _git_texts(args) if call.program == "git" else []
    return [text for text in found if text and is_known(text[:1])]


def _git_texts(args: list[str]) -> list[str]:
    found = [match.group(1) for word in args if (match := _GIT_COMMANDS.match(word))]
    found += [word[1:] for word in args if word.startswith("!")]
    for word in args:
        if word.startswith("ext::"):  # blanks inside its words are written "% "
            found.append(" ".join(f"'{part}'".replace("%", " ") for part in word[5:].replace("% ", "%").split()))
    for first, second in (("submodule", "foreach"), ("bisect", "run")):
        if first in args and second in args:
            found.append(" ".join(word for word in args[args.index(second) + 1 :] if word != "--recursive"))
    return found


def _escapes(call: Call) -> list[str]:
    """Shell commands in the script of another program."""
    scripts = [*call.args, call.stdin.text or ""]
    if call.program in _HAVE_ESCAPES:
        return [text for script in scripts for text in _ESCAPES.findall(script)]
    if call.program in _SED:
        matches = [match for script in scripts[:-1] for match in _SED_RUNS.finditer(script)]
        return [re.sub(r"\\(.)", r"\1", match["run"] or match["put"]) for match in matches]
    return []


def _is_cluster(word: str, short: str) -> bool:
    """``-qc`` ends in ``-c``."""
    return (
        len(short) == 2 and len(word) > 2 and word[0] == "-" != word[1] and word[1:].isalpha() and word[-1] == short[1]
    )


def run_options(shell: Shell, call: Call) -> None:
    """Judge every command line among the options."""
    for text in texts_among(call):
        run_text(shell, call, text)
    for text in _escapes(call):
        shell.report("inline-code", call.source)
        run_text(shell, call, text)
    if call.program in ("make", "gmake"):
        _makefile(shell, call)
    if call.program in ("at", "batch") and call.stdin.text:
        run_flow(shell, call, call.stdin)
    if call.program in ("tmux", "screen", "hyperfine", "concurrently", "entr", "xdotool"):
        for word in call.args:
            if " " in word:
                run_text(shell, call, word)


def _makefile(shell: Shell, call: Call) -> None:
    """Rules for make that this very command line wrote: their recipes are shell commands."""
    files = call.values("f", "file", "makefile") or ["Makefile", "makefile", "GNUmakefile"]
    texts = [(call.stdin if name == "-" else shell.content_of(name)).text for name in files]
    for text in filter(None, texts):
        shell.report("inline-code", call.source)
        for line in text.splitlines():
            run_text(shell, call, line.rpartition(";")[2] if ":" in line else line.strip().lstrip("@-"))
