"""Interpreters: the code they run, from an argument, standard input or a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes.policy.call import Call, without_version
from hermes.policy.programs.code import look_into
from hermes.policy.shell.flow import Flow
from hermes.policy.shell.words import names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: For each language, the options whose value is code: single letters, then long names.
INLINE: dict[str, tuple[str, frozenset[str]]] = {
    **dict.fromkeys(names("python pypy expect guile"), ("c", names(""))),
    "ipython": ("c", names("c")),
    "perl": ("eE", names("")),
    **dict.fromkeys(names("ruby lua luajit rscript r groovy scala ghc osascript raku swift"), ("e", names(""))),
    **dict.fromkeys(("node", "nodejs", "bun"), ("ep", names("eval print"))),
    **dict.fromkeys(("deno", "erl", "crystal"), ("", names("eval"))),
    "php": ("rBRE", names("run")),
    "julia": ("eE", names("eval print")),
    "elixir": ("e", names("eval")),
    **dict.fromkeys(("tclsh", "m4"), ("", names(""))),
    "emacs": ("", names("eval execute")),
    "gdb": ("", names("ex eval-command")),
}
#: Letters that take a value other than code.
_VALUES = {"python": "WXQ", "perl": "I", "ruby": "IrC", "node": "r", "php": "dcfFStz", "lua": "l"}
#: Letters after which the rest of the word is a value.
_ATTACHED = {"perl": "MmFiDx", "ruby": "KEWF0", "python": ""}
_AWK_RUNS = re.compile(r"\bsystem\s*\(|\|\s*getline|\bprintf?\b[^;}\n]*\|\s*\"|\"\s*\|\s*getline|@load")


def interpret(shell: Shell, call: Call) -> Flow | None:
    """Look at what an interpreter would run; None when the program is none."""
    language = call.program if call.program in INLINE else without_version(call.program)
    if language in ("awk", "gawk", "mawk", "nawk"):
        return _awk(shell, call)
    if language not in INLINE:
        return None
    code, operands = _code_and_operands(language, call.args)
    if code is not None:
        _inline(shell, call, code)
    elif not operands or operands[0] == "-":
        _standard_input(shell, call)
    else:
        flow = shell.content_of(operands[0])
        if operands[0].startswith("/dev/fd/") or operands[0] in ("/dev/stdin", "/proc/self/fd/0"):
            flow = call.stdin if "std" in operands[0] or operands[0].endswith("/0") else flow
            _given(shell, call, flow)
        elif flow.origin != "file":
            _given(shell, call, flow)
    return call.stdin.made_into(None, "program")


def _code_and_operands(language: str, args: list[str]) -> tuple[str | None, list[str]]:
    """The code in the options, if any, and the remaining arguments."""
    letters, long = INLINE[language]
    values, attached = _VALUES.get(language, ""), _ATTACHED.get(language, "")
    at = 0
    while at < len(args):
        word = args[at]
        if word.lstrip("-").partition("=")[0] in long and (word.startswith("-") or language in ("deno", "crystal")):
            return ("\n".join([*word.partition("=")[2:], *args[at + 1 :]]), [])
        if not word.startswith("-") or word in ("-", "--"):
            break
        if not word.startswith("--"):
            for position, letter in enumerate(word[1:], 2):
                if letter in letters:
                    return "\n".join([word[position:], *args[at + 1 :]]), []
                if language == "python" and letter == "m":
                    timed = args[at + 1 : at + 2] == ["timeit"]
                    return ("\n".join(args[at + 2 :]) if timed else None), ["-m"]
                if letter in values or letter in attached:
                    at += position == len(word) and letter in values
                    break
        at += 1
    return None, [word for word in args[at:] if word != "--"]


def _inline(shell: Shell, call: Call, code: str) -> None:
    shell.report("inline-code", call.source)
    _look(shell, call, code)


def _standard_input(shell: Shell, call: Call) -> None:
    if call.stdin.origin != "terminal" and not {"--version", "-V", "-v", "--help", "-h"}.intersection(call.args):
        _given(shell, call, call.stdin)


def _given(shell: Shell, call: Call, flow: Flow) -> None:
    """Code from a pipe, a here-document or a file written in this command line."""
    if flow.origin == "remote":
        shell.report("remote-script", call.source)
    elif flow.origin == "decoded":
        shell.report("decode-then-execute", call.source)
    elif flow.origin != "file":
        shell.report("inline-code", call.source)
    if flow.text:
        _look(shell, call, flow.text)


def _look(shell: Shell, call: Call, code: str) -> None:
    """Report hardline effects of the code; the inline-code rule asks about the rest."""
    found = look_into(code)
    if found.forks:
        shell.report("fork-bomb", code)
    if found.kills_everything:
        shell.report("kill-everything", code)
    if any(map(call.paths.is_raw_device, found.devices)):
        shell.report("raw-device", code)
    if any(path.startswith(("/", "~", "..", "C:")) and call.paths.is_vital(path) for path in found.deleted):
        shell.report("delete-system-tree", code)
    for command in found.commands:
        shell.read_apart(command, only_hardline=True)


def _awk(shell: Shell, call: Call) -> Flow:
    """An awk program is a filter like any other until it runs commands."""
    files = [shell.content_of(path).text or "" for path in call.values("f", "file")]
    program = " ".join([*call.args, *files])
    if _AWK_RUNS.search(program):
        _inline(shell, call, program)
    return call.stdin.made_into(None, "program")
