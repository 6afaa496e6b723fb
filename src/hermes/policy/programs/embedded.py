"""Command lines in the arguments of programs that are not shells."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.policy.call import Call
from hermes.policy.programs.launchers import run_flow, run_text
from hermes.policy.shell.flow import SECRET_FILE
from hermes.policy.shell.marks import is_known
from hermes.policy.shell.words import by_program, names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: Options whose value is a command line.
_TEXT_OPTIONS = by_program(
    {
        "su runuser script flock nix vagrant": "-c --command",
        "sg capsh": "-c",
        "nix-shell": "--run --command",
        "npm npx": "-c --call",
        "env": "-S --split-string",
        "rsync": "-e --rsh --rsync-path",
        "scp": "-S",
        "tar": "-I --use-compress-program --to-command --rsh-command --info-script --new-volume-script",
        "bsdtar": "--use-compress-program",
        "man": "-P --pager -H",
        "zip": "-TT --unzip-command",
        "split": "--filter",
        "sort": "--compress-program",
        "nodemon": "-x --exec",
        "watchexec": "--",
        "xterm konsole": "-e",
        "gnome-terminal": "-e --command",
        "ncat": "-c --sh-exec -e --exec",
        "nc": "-c -e",
        "hyperfine": "-p --prepare -s --setup -c --cleanup",
        "git": "-x --exec --upload-pack --receive-pack --extcmd --open-files-in-pager --tree-filter --index-filter "
        "--env-filter --msg-filter --commit-filter --parent-filter",
        "make gmake": "--eval",
        "rg": "--pre --hostname-bin",
        "fzf": "--preview --bind",
        "sk skim": "--preview --bind -c --cmd",
        "ansible ansible-console": "-a --args",
        "bat delta gh systemctl journalctl mysql psql": "--pager",
        "salt-ssh knife": "-r --raw",
        "gcloud": "--command",
        "fly flyctl": "-C --command",
    }
)
#: Settings of git, as in ``git -c KEY=VALUE``, whose value is a command line.
_GIT_COMMANDS = re.compile(
    r"(?:alias\.[^=]+=!|core\.(?:sshcommand|pager|editor|fsmonitor|gitproxy|askpass)=|credential\.[^=]*helper=!?"
    r"|diff\.external=|pager\.\w+=|sequence\.editor=|gpg\.program="
    r"|(?:filter|difftool|mergetool|diff|merge)\.[^=]*(?:clean|smudge|cmd|textconv|command)=)(.*)",
    re.IGNORECASE | re.DOTALL,
)
_SSH_COMMANDS = re.compile(r"(?:-o)?(?:proxy|local|knownhosts)command\s*[= ]\s*(.*)", re.IGNORECASE | re.DOTALL)
#: Programs that run a command line on other machines: the words behind the options and the list of machines.
_REMOTE_RUNNERS = names(
    "pssh parallel-ssh pdsh clush dsh fab fabric mussh cssh salt salt-ssh orgalorg ansible rsh remsh rexec psexec "
    "winrs sshpass dcli bolt knife"
)
_EDITORS = names("vi vim nvim ex view gvim rvim vimdiff ed less more")
_EDITOR_SHELL = re.compile(r"^[+:\s]*(?:!|(?:silent|execute|exe)\s*!?\s*['\"]?!|call system\()(.*)", re.DOTALL)

#: Programs with a language of their own in which a line may be a shell command.
_ESCAPES = re.compile(r"^\s*(?:\\!|!|\.(?:shell|system)\s|(?:shell|system|sh)\s)\s*(.+)", re.MULTILINE)
_HAVE_ESCAPES = names("psql mysql mariadb sqlite3 sqlite ftp sftp lftp ed ex gdb bc mail mailx cqlsh duckdb telnet")
_SED = names("sed gsed")
_SED_RUNS = re.compile(r"(?:^|[;{}\n\d$/])[ \t]*e\s+(.+)", re.DOTALL)
_SED_REPLACES = re.compile(r"s([^\w\s])")
_SED_FLAGS = re.compile(r"[gpiIm\d]*e")
#: Longer scripts for sed are not searched for commands.
_LONGEST_SED = 4_000


def texts_among(call: Call) -> list[str]:
    """The values of options that are command lines."""
    options, args = _TEXT_OPTIONS.get(call.program, "").split(), call.args
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


#: A helper for git's credentials gets them on its standard input.
_CREDENTIAL_HELPER = re.compile(r"credential\.(?:[^=]*\.)?helper=!(.*)", re.IGNORECASE | re.DOTALL)


def _git_texts(args: list[str]) -> list[str]:
    found = [word[2:] for word in args if word.startswith("-O") and "grep" in args]
    found += [match.group(1) for word in args if (match := _GIT_COMMANDS.match(word))]
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
        return [text for script in scripts[:-1] for text in _sed_commands(script[:_LONGEST_SED])]
    return []


def _sed_commands(script: str) -> list[str]:
    """Shell commands in a script for sed: after ``e``, and replacements with the flag ``e``."""
    found = _SED_RUNS.findall(script)
    at = 0
    while match := _SED_REPLACES.search(script, at):
        middle = _unescaped(script, match.group(1), match.end())
        end = _unescaped(script, match.group(1), middle + 1)
        if middle < 0 or end < 0:
            at = match.end()
            if script.find(match.group(1), at) < 0:
                break
            continue
        if _SED_FLAGS.match(script, end + 1):
            found.append(script[middle + 1 : end])
        at = end
    return [re.sub(r"\\(.)", r"\1", text) for text in found]


def _unescaped(text: str, mark: str, start: int) -> int:
    """The position of the next ``mark`` without a backslash before it, or -1."""
    at = text.find(mark, start) if start else -1
    while at > 0 and text[at - 1] == "\\":
        at = text.find(mark, at + 1)
    return at


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
    for word in call.args if call.program == "git" else ():
        if helper := _CREDENTIAL_HELPER.match(word):
            shell.read_apart(helper.group(1), SECRET_FILE)
    if call.program in ("make", "gmake"):
        _makefile(shell, call)
    if call.program in _REMOTE_RUNNERS:
        _remote(shell, call)
    if call.stdin.text:
        _typed(shell, call, call.stdin.text)
    for word in call.args if call.program in _LINE_RUNNERS else ():
        if " " in word:
            run_text(shell, call, word)


#: Programs that run a whole command line given as one word.
_LINE_RUNNERS = names("tmux screen hyperfine concurrently entr xdotool")


def _typed(shell: Shell, call: Call, text: str) -> None:
    """Judge what is typed into an editor that can start a shell, or given to a queue of jobs."""
    if call.program in ("at", "batch"):
        run_flow(shell, call, call.stdin)
    for first, second in _TYPED_ESCAPE.findall(text) if call.program in _EDITORS else ():
        shell.report("inline-code", call.source)
        run_text(shell, call, first or second)


_TYPED_ESCAPE = re.compile(r"^(?:\x1b)?:?!(.+)|^(?:\x1b)?:\s*(?:!|r\s*!|w\s*!|term(?:inal)?\s)(.+)", re.MULTILINE)


def _remote(shell: Shell, call: Call) -> None:
    """Commands for other machines: every word or tail of words that reads like one."""
    for at, word in enumerate(call.args):
        if word.startswith("-"):
            continue
        rest = call.args[at:]
        if " " in word:
            run_text(shell, call, word)
        elif len(rest) > 1 or word in ("reboot", "poweroff", "halt", "shutdown"):
            with shell.subshell(contained=True):
                if shell.findings_of(rest, Call(rest, call.source, call.paths)).any:
                    shell.report("wrapped-command", call.source)
                    return


def _makefile(shell: Shell, call: Call) -> None:
    """Rules for make: those that this command line or session wrote, and others as far as hardline rules go."""
    files = call.values("f", "file", "makefile") or ["Makefile", "makefile", "GNUmakefile"]
    for name in files:
        text = (call.stdin if name == "-" else shell.content_of(name)).text
        if text:
            shell.report("inline-code", call.source)
            _run_recipes(shell, call, text)
        elif script := shell.script_at(name):
            wanted = [word for word in call.options.operands if "=" not in word]
            with shell.subshell(**script.trust):
                _run_recipes(shell, call, script.text, wanted)


def _run_recipes(shell: Shell, call: Call, text: str, wanted: list[str] | None = None) -> None:
    """Judge the recipes of the targets that are made; of all when it is not known which."""
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]
    recipes: dict[str, list[str]] = {}
    needs: dict[str, list[str]] = {}
    current = ""
    for line in lines:
        head, colon, rest = line.partition(":")
        if line[:1] in "\t " and current:
            recipes[current].append(line.strip().lstrip("@-+"))
        elif colon and not rest.startswith("=") and "=" not in head:
            for target in head.split():
                current = target
                prerequisites, _, recipe = rest.partition(";")
                recipes.setdefault(current, []).extend([recipe] if recipe.strip() else [])
                needs.setdefault(current, []).extend(prerequisites.split())
        else:
            recipes.setdefault("", []).append(line.strip().lstrip("@-+"))
    if wanted is None:
        chosen = list(recipes)
    else:
        first = next((target for target in recipes if target and not target.startswith(".")), "")
        chosen = _reachable(wanted or [first], needs)
    for target in chosen:
        for recipe in recipes.get(target, ()):
            run_text(shell, call, recipe)


def _reachable(targets: list[str], needs: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    waiting = list(targets)
    while waiting and len(found) < 200:
        target = waiting.pop(0)
        if target not in found:
            found.append(target)
            waiting += needs.get(target, [])
    return found
