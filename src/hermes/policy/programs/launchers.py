"""Launchers: programs that run a script, a command line or an argument list."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.policy.call import Call, after_options, base_name
from hermes.policy.places import NOWHERE
from hermes.policy.programs.secrets.private import is_data
from hermes.policy.rules.deletion import finds_disposable
from hermes.policy.scripts import Script
from hermes.policy.shell.flow import PROGRAM, TERMINAL, Flow, text_flow
from hermes.policy.shell.marks import DECODED, REMOTE, UNKNOWN, known_part
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

SHELLS = names(
    "sh bash zsh dash ksh mksh ash rbash fish csh tcsh yash busybox-sh pwsh-sh lksh ksh93 oksh nu xonsh "
    "elvish osh ysh ion murex"
)
#: Letters of shells that take a value.
_SHELL_VALUES = "oO"
_SHELL_NAMES = ("rcfile", "init-file")
_SHELL_OPTION = re.compile(r"[-+].")
#: Letters and long names of options of container engines that take a value, or do not.
_ENGINE_VALUES = "evwupmclhaE"
_ENGINE_FLAGS = names("rm privileged detach tty interactive init read-only no-deps")
_ENGINES = names("docker podman nerdctl kubectl oc docker-compose crictl lxc buildah")
STANDARD_INPUT = ("-", "/dev/stdin", "/proc/self/fd/0", "/dev/fd/0")


def shell_program(shell: Shell, call: Call) -> Flow:
    """``sh -c TEXT``, ``sh FILE`` or ``sh`` reading its standard input."""
    args, at = call.args, 0
    command = reads_input = False
    while at < len(args) and _SHELL_OPTION.match(args[at]):
        word = args[at]
        at += 1
        if word == "--":
            break
        if word.startswith("--"):
            command |= word in ("--command", "--init-command")
            if word.startswith("--command="):
                return run_text(shell, call, word.partition("=")[2], args[at:])
            if word[2:] in _SHELL_NAMES:
                run_file(shell, call, "".join(args[at : at + 1]), [], here=True)
                at += 1
            continue
        command |= "c" in word[1:].lower()
        reads_input |= "s" in word[1:]
        at += any(letter in word for letter in _SHELL_VALUES)
    rest = args[at:]
    if command:
        return run_text(shell, call, rest[0], rest[2:], rest[1:2]) if rest else PROGRAM
    if reads_input or not rest or rest[0] in STANDARD_INPUT:
        return run_flow(shell, call, call.stdin, rest)
    return run_file(shell, call, rest[0], rest[1:])


def run_text(
    shell: Shell, call: Call, text: str, arguments: list[str] | None = None, name: list[str] | None = None
) -> Flow:
    """A text that a new shell runs."""
    _report_unknown(shell, call, text)
    changes: dict[str, object] = {} if arguments is None else {"positional": arguments}
    if name:
        changes["variables"] = {**shell.state.variables, "0": name[0]}
    return shell.read_apart(text, call.stdin, **changes)


def run_here(shell: Shell, call: Call, text: str) -> Flow:
    """A text that this very shell runs: what it assigns stays."""
    _report_unknown(shell, call, text)
    return shell.read(text, call.stdin)


def _report_unknown(shell: Shell, call: Call, text: str) -> None:
    if REMOTE in text:
        shell.report("remote-script", call.source)
    if DECODED in text:
        shell.report("decode-then-execute", call.source)
    if UNKNOWN in text:
        shell.unseen(call)
        if not known_part(text).strip():
            shell.report("unknown-script", call.source)


def run_flow(shell: Shell, call: Call, flow: Flow, arguments: list[str] | None = None, *, here: bool = False) -> Flow:
    """A script from a pipe, a here-document or a file."""
    if flow.origin == "remote":
        shell.report("remote-script", call.source)
    elif flow.origin == "decoded":
        shell.report("decode-then-execute", call.source)
    elif flow.text is None and flow.origin == "program":
        shell.report("unknown-script", call.source)
    if flow.text is None:
        shell.unseen(call)
    if not flow.text:
        return PROGRAM
    if here:
        return shell.read(flow.text)
    return shell.read_apart(flow.text, TERMINAL, positional=arguments or [])


def run_file(shell: Shell, call: Call, path: str, arguments: list[str], *, here: bool = False) -> Flow:
    """A script in a file: judged when this command line wrote or downloaded it, or when it can be read."""
    if script := shell.script_at(path):
        return shell.read_apart(script.text, TERMINAL, positional=arguments, **script.trust)
    return run_flow(shell, call, shell.content_of(path), arguments, here=here)


def run_path(shell: Shell, call: Call) -> Flow | None:
    """``./file``: a program that this command line made or made executable; None when it is neither."""
    path = shell.state.paths.resolve(call.words[0])
    if path in shell.state.copies:
        return shell.run([shell.state.copies[path], *call.args], call)
    if path in shell.state.executable:
        shell.report("made-executable", call.source)
    flow = shell.state.files.get(path)
    if flow is not None:
        return run_flow(shell, call, flow, call.args)
    script = shell.script_at(path)
    return None if script is None else _run_script(shell, call, script)


_SHEBANG = re.compile(r"#!\s*\S*?/?(?:env\s+(?:-S\s+)?)?([\w.+-]+)\s*$", re.MULTILINE)


def _run_script(shell: Shell, call: Call, script: Script) -> Flow | None:
    """An executable script: read by the interpreter of its first line."""
    first = _SHEBANG.match(script.text)
    name = base_name(first.group(1)) if first else "sh"
    if name in SHELLS:
        return shell.read_apart(script.text, TERMINAL, positional=call.args, **script.trust)
    with shell.subshell(only_hardline=True):
        return shell.run([name, "-"], call, text_flow(script.text))


# Programs that hand words to a shell on their own terms

_SSH_VALUES = "BbcDEeFIiJLlmOopQRSWw"
_XARGS_VALUES = "adEILlnPsR"
_FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")
_FD_RUNS = ("-x", "-X", "--exec", "--exec-batch")


def ssh(shell: Shell, call: Call) -> Flow:
    """A command for another machine is judged like a local one."""
    text = " ".join(_after_options(call.args, _SSH_VALUES)[1:])
    with shell.subshell():
        shell.state.paths.place = NOWHERE
        if text:
            run_text(shell, call, text)
        elif call.stdin.origin != "terminal":
            run_flow(shell, call, call.stdin)
    return Flow(None, "remote")


def xargs(shell: Shell, call: Call) -> Flow:
    """The inner command, with the words from its input where known."""
    args, at, placeholder = call.args, 0, ""
    while at < len(args) and args[at].startswith("-"):
        word = args[at]
        if word.startswith("-I"):
            placeholder = word[2:] or (args[at + 1] if at + 1 < len(args) else "")
        elif word.startswith(("-i", "--replace")):
            placeholder = word.partition("=")[2] or ("" if word.startswith("--") else word[2:]) or "{}"
        takes = len(word) == 2 and word[1] in _XARGS_VALUES
        at += 2 if takes else 1
        if word == "--":
            break
    inner = args[at:]
    if not inner:
        return call.stdin
    if placeholder:
        lines = (call.stdin.text or call.stdin.as_value()).split("\n")[:16]
        filled = [[word.replace(placeholder, line) for word in inner] for line in lines if line]
        flows = [shell.run(words, call, PROGRAM) for words in filled]
        return flows[-1] if flows else PROGRAM
    return shell.run([*inner, *_words_of(call.stdin)], call, PROGRAM)


def _words_of(flow: Flow) -> list[str]:
    if flow.text is None:
        return [flow.as_value()]
    return [word.strip("'\"") for word in re.split(r"[\s\0]+", flow.text) if word][:16] or [UNKNOWN]


def find(shell: Shell, call: Call) -> Flow:
    """``-exec`` runs its command on what lies below the starting points."""
    args = call.args
    start = next((at for at, word in enumerate(args) if word[:1] in ("-", "(", "!")), len(args))
    roots = [word for word in args[:start] if not word.startswith("-")] or ["."]
    at, runs = start, _FIND_RUNS if call.program.endswith("find") else _FD_RUNS
    while at < len(args):
        if args[at] not in runs:
            at += 1
            continue
        inner: list[str] = []
        at += 1
        while at < len(args) and args[at] != ";" and not (args[at] == "+" and inner[-1:] == ["{}"]):
            inner.append(args[at])
            at += 1
        if runs is _FD_RUNS and not any("{" in word for word in inner):
            inner.append("{}")
        named = [args[place + 1] for place, word in enumerate(args[:-1]) if word in ("-name", "-iname")]
        name = named[0] if len(named) == 1 and (finds_disposable(call) or is_data(named[0])) else UNKNOWN
        below = [f"{root.rstrip('/')}/{name}" for root in roots]
        for path in below:
            shell.run([word.replace("{}", path) for word in inner], call, PROGRAM)
    return PROGRAM


def parallel(shell: Shell, call: Call) -> Flow:
    """The words before ``:::`` are a shell command, those behind it fill it."""
    words = _after_options(call.args, "jNnLPSI")
    marks = [at for at, word in enumerate(words) if word.startswith(":::")]
    command = words[: marks[0]] if marks else words
    coming = [word for word in words[marks[0] :] if not word.startswith(":::")] if marks else _words_of(call.stdin)
    if not command and not marks:  # each line is a command
        return run_flow(shell, call, call.stdin)
    for item in coming[:16] or [UNKNOWN]:
        text = " ".join(command)
        run_text(shell, call, text.replace("{}", item) if "{}" in text else f"{text} {item}".strip())
    return PROGRAM


def joined_words(shell: Shell, call: Call) -> Flow:
    """``watch`` and its like: all operands are one command line."""
    operands = _after_options(call.args, "n")
    return run_text(shell, call, " ".join(operands)) if operands else PROGRAM


def container(shell: Shell, call: Call) -> None:
    """``docker exec NAME COMMAND`` and similar: judges the inner command, without hardline rules."""
    words = [word for word in call.args if word not in ("compose", "container")]
    verb = next((word for word in words if word in ("exec", "run")), "")
    if call.program not in _ENGINES or not verb:
        return
    rest = words[words.index(verb) + 1 :]
    inner = rest[rest.index("--") + 1 :] if "--" in rest else _after_image(rest)
    with shell.subshell(contained=True):
        shell.run(inner, call)


def _after_image(args: list[str]) -> list[str]:
    def takes_value(word: str) -> bool:
        lone = word.startswith("--") and "=" not in word and word[2:] not in _ENGINE_FLAGS
        return lone or (len(word) == 2 and word[1] in _ENGINE_VALUES)

    return after_options(args, takes_value)[1:]


def _after_options(args: list[str], values: str) -> list[str]:
    return after_options(args, lambda word: len(word) == 2 and word[1] in values)
