"""Interpreters: the code they run, from an argument, standard input or a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.policy.call import Call, without_version
from hermes.policy.shell.flow import Flow
from hermes.policy.shell.words import escapes, names

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


# Code in other languages. Its length is bounded (ReDoS).

_LITERAL = re.compile(
    r"\"\"\"(.*?)\"\"\"|'''(.*?)'''|\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`"
    r"|\b(?:qx|qw|q|qq|%x|%w)\s*[({\[/|!](.*?)[)}\]/|!]|%[xw][({\[](.*?)[)}\]]",
    re.DOTALL,
)
_RUNS = re.compile(
    r"\b(?:system|popen[234]?|spawn\w*|exec\w*|subprocess|run|call|check_call|check_output|getoutput|getstatusoutput"
    r"|shell_exec|passthru|proc_open|pcntl_exec|child_process|os\.execute|io\.popen|Open3|qx|shell|do shell script"
    r"|ShellExecute|pty|Process|Command)\b"
    r"|%x|`|\|\s*getline|\bprint[^;\n]*\|\s*[\"']"
)
_DELETES = re.compile(
    r"\b(?:rmtree|removedirs|remove_dir_all|rm_rf?|rm_r|rmSync|rmdirSync|remove_tree|rimraf|RemoveAll|deleteDirectory|delete_tree|rmdir_r"
    r"|rm|unlinkTree|remove_all|emptyDirSync)\b"
)
_FORKS = re.compile(
    r"fork\s*(?:\(\s*\))?\s*while\s+(?:fork|1|true)|while\s*\(?\s*(?:1|true|fork)\b[^;]{0,12}\)?\s*[:{]?\s*(?:os\.|Process\.)?fork\b"
    r"|loop\s*(?:do|\{)\s*fork|for\s*\(\s*;\s*;\s*\)\s*\{?\s*fork|fork\s*\(?\s*\)?\s*(?:;|\n)\s*redo",
    re.IGNORECASE,
)
_KILLS = re.compile(r"\bkill\w*\s*\(?\s*(?:-1\s*,|[\w.'\":]+\s*,\s*-1\b)")
_OPENS = re.compile(r"\bopen\w*\s*\(\s*['\"](/dev/[^'\"]+)['\"]\s*,\s*['\"](?:[rb+]*[wa+]|>)")
_MOST_LITERALS = 40


@dataclass(frozen=True, slots=True)
class InlineCode:
    """What was found in a piece of code."""

    #: Literals that it may pass to a shell.
    commands: tuple[str, ...] = ()
    #: Paths that it may delete recursively.
    deleted: tuple[str, ...] = ()
    #: Files under ``/dev`` that it opens for writing.
    devices: tuple[str, ...] = ()
    forks: bool = False
    kills_everything: bool = False


def look_into(code: str) -> InlineCode:
    """The literal commands and paths in the code. Best effort: the inline-code rule asks anyway."""
    literals = [_text(match) for match in _LITERAL.finditer(code)][:_MOST_LITERALS]
    commands: list[str] = []
    if literals and _RUNS.search(code):
        commands = [*literals, " ".join(literals), "".join(literals)]
    return InlineCode(
        commands=tuple(dict.fromkeys(command for command in commands if command.strip())),
        deleted=tuple(literals) if _DELETES.search(code) else (),
        devices=tuple(_OPENS.findall(code)),
        forks=_FORKS.search(code) is not None,
        kills_everything=_KILLS.search(code) is not None,
    )


def _text(match: re.Match[str]) -> str:
    return escapes(next((group for group in match.groups() if group is not None), ""))
