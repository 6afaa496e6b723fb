"""Dispatch of a call to its program model: the programs it starts, and its output."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from shlex import quote
from typing import TYPE_CHECKING

from hermes.policy.call import Call, base_name, without_version
from hermes.policy.places import NOWHERE
from hermes.policy.programs.builtins import BUILTINS
from hermes.policy.programs.embedded import read_statements, run_options
from hermes.policy.programs.fetched import note_fetched, runs_fetched
from hermes.policy.programs.inline.interpreters import INLINE, interpret
from hermes.policy.programs.inline.powershell import PROGRAMS as WINDOWS
from hermes.policy.programs.inline.powershell import windows
from hermes.policy.programs.launchers import (
    SHELLS,
    container,
    find,
    joined_words,
    parallel,
    run_flow,
    run_path,
    run_text,
    shell_program,
    ssh,
    xargs,
)
from hermes.policy.programs.output.outputs import output
from hermes.policy.programs.secrets.leaks import check_secrets
from hermes.policy.programs.variables import set_variable
from hermes.policy.programs.wrappers import LOOSE, WRAPPERS, loose_commands, unwrap
from hermes.policy.shell.flow import PROGRAM, Flow
from hermes.policy.shell.marks import DECODED, REMOTE, is_known, known_part
from hermes.policy.shell.words import by_program, names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: Wrappers with which a program can do more than the user who starts it.
_RAISING = names("sudo doas pkexec run0")
#: Wrappers that start a shell when no command is given.
_OPEN_SHELLS = names("su sudo doas chroot unshare nsenter script runuser")
_LAUNCHERS: dict[str, Callable[[Shell, Call], Flow]] = by_program(
    {
        " ".join(SHELLS): shell_program,
        "ssh autossh mosh": ssh,
        "xargs gxargs": xargs,
        "find gfind fd fdfind": find,
        "watch viddy": joined_words,
        "parallel": parallel,
    }
)
_DOWNLOADERS = names("curl wget")
#: Programs that an unknown program must not get as arguments, and that a pattern for a name may match.
_DESTROYERS = ("rm", "dd", "mkfs", "shred", "wipefs")
_NOTABLE = names(
    "rimraf del-cli chmod chown git kill killall pkill shutdown reboot systemctl eval hermes npm cargo twine "
    "docker kubectl terraform aws gcloud curl wget psql mysql"
)
#: How many arguments of an unknown program are looked at.
_MOST_WRAPPED = 40
_GUESSES = ("rm", "dd", "shutdown", "reboot", "mkfs.ext4", "mkfs", "bash", "sh", "sudo", "chmod", "kill")
#: Programs that only show or store their words.
_QUOTES_ITS_WORDS = names(
    "echo printf git grep egrep fgrep rg ag ack man which type whereis apropos whatis info tldr help cowsay say "
    "notify-send logger test [ ls cat less head tail wc file stat du alias export hash apt apt-get brew yum dnf pip "
    "npm yarn cargo go gem"
)


#: The dynamic loader runs the program that it is given.
_DYNAMIC_LOADER = re.compile(r"ld(?:-linux|-musl)?[\w.-]*\.so(?:\.\d+)*$")


def run(shell: Shell, call: Call) -> Flow:
    """Judge a call and everything it starts."""
    first = call.words[0]
    if not is_known(first):
        return _unknown(shell, call)
    if first in shell.state.aliases:
        value = shell.state.aliases.pop(first)
        flow = shell.read(" ".join([value, *map(quote, call.args)]), call.stdin)
        shell.state.aliases[first] = value
        return flow
    if any(character in first for character in "*?[") and first not in ("[", "[["):
        _guess(shell, call)
    read_statements(shell, call)
    shell.check(call)
    if _is_no_ones(shell, call):
        shell.report("load-code", call.source)
    if runs_fetched(shell.state, call, runs_file=_runs_file(call)):
        shell.report("unchecked-package", call.source)
    note_fetched(shell.state, call)
    taint = check_secrets(shell, call)
    if first in shell.state.functions:
        shell.evaluate(call.args)
        return shell.call_function(first, call.args, call.stdin)
    flow = _started(shell, call)
    return flow.tainted(taint) if taint else flow


def _is_no_ones(shell: Shell, call: Call) -> bool:
    """A program or script that an option of another program starts from a folder that is no one's, or a hidden one."""
    first = call.words[0]
    if first.startswith("/") and _HIDDEN.match(first):
        return True
    if not shell.state.by_option:
        return False
    paths = [first, *call.options.operands[:1]] if _runs_file(call) else [first]
    return any("/" in path and call.paths.is_foreign(path) for path in paths)


def _runs_file(call: Call) -> bool:
    return call.program in SHELLS or without_version(call.program) in INLINE


#: Programs in memory, or in a hidden folder among temporary files.
_HIDDEN = re.compile(r"/dev/shm/|(?:/private)?(?:/var)?/tmp/(?:.*/)?\.\w")


def _started(shell: Shell, call: Call) -> Flow:
    program = call.program
    builtin = BUILTINS.get(program)
    if builtin is not None:
        if program in _DOWNLOADERS:
            run_options(shell, call)
        return builtin(shell, call)
    run_options(shell, call)
    if _DYNAMIC_LOADER.match(program):
        start = next((at for at, word in enumerate(call.args) if not word.startswith("-")), len(call.args))
        return shell.run(call.args[start:], call)
    launcher = _LAUNCHERS.get(program)
    if launcher is not None:
        return launcher(shell, call)
    if "/init.d/" in call.words[0]:
        return shell.run(["service", program, *call.args], call)
    if "/" in call.words[0]:
        flow = run_path(shell, call)
        if flow is not None:
            return flow
    if program in WINDOWS:
        windows(shell, call)
    inner = unwrap(program, call.args)
    for word in call.args[: len(call.args) - len(inner)] if inner is not None else ():
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():  # env NAME=value COMMAND
            set_variable(shell, name, value, call.source)
    if inner:
        return _run_inner(shell, call, inner)
    if program in _OPEN_SHELLS and call.stdin.origin != "terminal":
        return run_flow(shell, call, call.stdin)
    return _run_loose(shell, call) if program in LOOSE else _run_itself(shell, call)


def _run_inner(shell: Shell, call: Call, inner: list[str]) -> Flow:
    """The command behind a wrapper."""
    if call.program not in _RAISING:
        return shell.run(inner, call)
    with shell.subshell(by_option=True):
        return shell.run(inner, call)


def _run_loose(shell: Shell, call: Call) -> Flow:
    """A program with a command somewhere among its words."""
    if without_version(call.program) in INLINE and not {"run", "install", "x", "test"}.intersection(call.args[:1]):
        interpret(shell, call)
    shell.run(loose_commands(call.args, _is_notable), call)
    return PROGRAM


def _run_itself(shell: Shell, call: Call) -> Flow:
    """A program that starts no other, as far as its name shows."""
    program = call.program
    container(shell, call)
    if program in ("coreutils", "gcoreutils"):
        return shell.run([word.removeprefix("--coreutils-prog=") for word in call.args], call)
    for word in call.args if program == "socat" else ():
        kind, _, text = word.partition(":")
        if kind.lower() in ("exec", "system", "shell"):
            run_text(shell, call, text.partition(",")[0])
    flow = interpret(shell, call)
    if flow is not None:
        return flow
    _look_for_destroyers(shell, call)
    return output(call)


def _unknown(shell: Shell, call: Call) -> Flow:
    """The program's name is not known: ask, and judge what it would be if the unknown part were empty."""
    first = call.words[0]
    key = "remote-script" if REMOTE in first else "decode-then-execute" if DECODED in first else "unknown-program"
    shell.report(key, call.source)
    flags = {letter for word in call.args if word[:1] == "-" != word[1:2] for letter in word[1:]}
    if flags & {"r", "R"} and any(map(call.paths.is_vital, call.args)):
        shell.report("delete-system-tree", call.source)
    rest = known_part(first)
    words = [rest, *call.args] if rest and not rest.endswith("/") else call.args
    return shell.run(words, call) if words else PROGRAM


def _guess(shell: Shell, call: Call) -> None:
    """A pattern instead of a program name counts as the most dangerous match."""
    pattern = base_name(call.words[0])
    shell.report("unknown-program", call.source)
    guess = next((name for name in _GUESSES if fnmatchcase(name, pattern)), None)
    if guess is not None:
        shell.run([guess, *call.args], call)


def _is_notable(program: str) -> bool:
    known = program in _LAUNCHERS or program in WRAPPERS or program in _NOTABLE
    return known or without_version(program) in INLINE or program.partition(".")[0] in _DESTROYERS


def _look_for_destroyers(shell: Shell, call: Call) -> None:
    """``anything rm -rf /``: an unknown program may run its arguments."""
    if call.program in _QUOTES_ITS_WORDS:
        return
    for at, word in enumerate(call.args[:_MOST_WRAPPED]):
        if len(call.args) > at + 1 and not word.startswith("-") and _is_notable(base_name(word)):
            with shell.subshell():
                shell.state.paths.place = NOWHERE  # a place is no danger
                found = shell.findings_of(call.args[at:], call).any
            if found:
                shell.report("wrapped-command", call.source)
            return
