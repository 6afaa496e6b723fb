"""Interpreters: the code they run, from an argument, standard input or a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.policy.call import Call, without_version
from hermes.policy.programs.harmless import is_harmless, is_harmless_call
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
    **dict.fromkeys(
        names("jshell irb pry iex ghci sbcl clisp racket octave maxima scheme janet fennel nu xonsh"),
        ("e", names("eval")),
    ),
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
_VALUES = {"python": "WXQ", "perl": "I", "ruby": "IrC", "node": "r", "php": "dcfFStz", "lua": "l", "gdb": "pxds"}
#: Letters after which the rest of the word is a value.
_ATTACHED = {"perl": "MmFiDx", "ruby": "KEWF0", "python": ""}
#: Longest code that is searched: some patterns take more than linear time.
_LONGEST_SCRIPT = 10_000
_AWK_RUNS = re.compile(r"/inet/|\|&|\bsystem\s*\(|\|\s*getline|\bprintf?\b[^;}\n]*\|\s*\"|\"\s*\|\s*getline|@load")


def interpret(shell: Shell, call: Call) -> Flow | None:
    """Look at what an interpreter would run; None when the program is none."""
    language = call.program if call.program in INLINE else without_version(call.program)
    if language in ("awk", "gawk", "mawk", "nawk"):
        return _awk(shell, call)
    if language not in INLINE:
        return None
    code, rest = _code_and_operands(language, call.args)
    if code is not None:
        if not is_harmless_call(language, call.args, code, call.paths):
            shell.report("inline-code", call.source)
        _look(shell, call, "\n".join([code, *rest]))
    elif not rest or rest[0] == "-" or _is_interactive(language, call.args):
        _standard_input(shell, call, language)
    if code is None and rest and rest[0] not in ("-", "-m"):
        _file(shell, call, rest[0], language)
    return call.stdin.made_into(None, "program")


def _is_interactive(language: str, args: list[str]) -> bool:
    return language in ("python", "pypy", "node", "nodejs", "php", "ruby", "lua") and not {
        "-i",
        "-a",
        "--interactive",
    }.isdisjoint(args)


def _file(shell: Shell, call: Call, path: str, language: str) -> None:
    """A file that the interpreter runs."""
    flow = shell.content_of(path)
    if path.startswith("/dev/fd/") or path in ("/dev/stdin", "/proc/self/fd/0"):
        flow = call.stdin if "std" in path or path.endswith("/0") else flow
        _given(shell, call, flow, language)
    elif flow.origin != "file":
        _given(shell, call, flow, language)
    elif script := shell.script_at(path):
        code = script.text[:_LONGEST_SCRIPT]
        _look(shell, call, code, is_new=script.is_new)
        if script.is_new:
            _look_at_calls(shell, call, code)


def _code_and_operands(language: str, args: list[str]) -> tuple[str | None, list[str]]:
    """The code in the options, if any, and the remaining arguments."""
    letters, long = INLINE[language]
    values, attached = _VALUES.get(language, ""), _ATTACHED.get(language, "")
    at = 0
    while at < len(args):
        word = args[at]
        if word.lstrip("-").partition("=")[0] in long and (word.startswith("-") or language in ("deno", "crystal")):
            attached = word.partition("=")[2]
            return _joined(letters, long, [attached, *args[at + 1 :]] if attached else args[at + 1 :])
        if not word.startswith("-") or word in ("-", "--"):
            break
        if not word.startswith("--"):
            for position, letter in enumerate(word[1:], 2):
                if letter in letters:
                    return _joined(
                        letters, long, [word[position:], *args[at + 1 :]] if word[position:] else args[at + 1 :]
                    )
                if language == "python" and letter == "m":
                    timed = args[at + 1 : at + 2] == ["timeit"]
                    return ("\n".join(args[at + 2 :]) if timed else None), ["-m"]
                if letter in values or letter in attached:
                    at += position == len(word) and letter in values
                    break
        at += 1
    return None, [word for word in args[at:] if word != "--"]


def _joined(letters: str, long: frozenset[str], words: list[str]) -> tuple[str, list[str]]:
    """The code of all options with code, and the other words."""
    code, rest = words[:1], list[str]()
    waiting = iter(words[1:])
    for word in waiting:
        if word.startswith("-") and ((word[1:] in letters and len(word) == 2) or word.lstrip("-") in long):
            code.append(next(waiting, ""))
        else:
            rest.append(word)
    return "\n".join(code), rest


def _standard_input(shell: Shell, call: Call, language: str) -> None:
    if call.stdin.origin != "terminal" and not {"--version", "-V", "-v", "--help", "-h"}.intersection(call.args):
        _given(shell, call, call.stdin, language)


def _given(shell: Shell, call: Call, flow: Flow, language: str) -> None:
    """Code from a pipe, a here-document or a file written in this command line."""
    if flow.origin == "remote":
        shell.report("remote-script", call.source)
    elif flow.origin == "decoded":
        shell.report("decode-then-execute", call.source)
    elif flow.origin != "file" and (flow.text is None or not is_harmless(language, flow.text, call.paths)):
        shell.report("inline-code", call.source)
    if flow.text:
        _look(shell, call, flow.text)


def _look_at_calls(shell: Shell, call: Call, code: str) -> None:
    """A script that was written in this session: what its calls delete, and whether they send credentials."""
    literals = [_quoted_text(match) for match in _LITERAL.finditer(code)][:_MOST_LITERALS]
    if _DELETES_TREE.search(code):
        shell.report("recursive-delete", call.source)
    if _SENDS.search(code) and any(map(shell.state.paths.secret_kind, filter(None, literals))):
        shell.report("send-credentials", call.source)


def _look(shell: Shell, call: Call, code: str, *, is_new: bool = False) -> None:
    """Report hardline effects of the code; the inline-code rule asks about the rest.

    ``is_new``: all rules count for the commands that it runs.
    """
    shell.budget.spend(100 + 8 * min(len(code), _LONGEST_SCRIPT))
    found = look_into(code[:_LONGEST_SCRIPT])
    if found.forks:
        shell.report("fork-bomb", code)
    if found.kills_everything:
        shell.report("kill-everything", code)
    if any(map(call.paths.is_raw_device, found.devices)):
        shell.report("raw-device", code)
    if any(path.startswith(("/", "~", "..", "C:")) and call.paths.is_vital(path) for path in found.deleted):
        shell.report("delete-system-tree", code)
    all_rules = is_new and _SPAWNS.search(code) is not None
    for command in found.commands:
        shell.read_apart(command, only_hardline=not (all_rules and _COMMAND.match(command)))


def _awk(shell: Shell, call: Call) -> Flow:
    """An awk program is a filter like any other until it runs commands."""
    files = [shell.content_of(path).text or "" for path in call.values("f", "file")]
    program = " ".join([*call.args, *files])
    if _AWK_RUNS.search(program[:_LONGEST_SCRIPT]):
        shell.report("inline-code", call.source)
        _look(shell, call, program)
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
#: Calls that delete a folder with all that is in it, in JavaScript, Ruby, Perl, PHP and Python.
_DELETES_TREE = re.compile(
    r"\b(?:rmtree|remove_tree|rm_rf|rm_r|rimraf|emptyDirSync|removeSync|deleteDirectory|remove_entry_secure)\b"
    r"|\b(?:rm|rmSync|rmdir|rmdirSync)\s*\([^()\n]{0,200}\brecursive\s*:\s*true"
)
#: Calls that send something somewhere.
_SENDS = re.compile(
    r"\bfetch\s*\(|\bhttps?\.(?:request|post|put)\b|\baxios\b|\bnet\.(?:connect|createConnection)\b|\bdgram\b|\bWebSocket\b"
    r"|\bNet::(?:HTTP|FTP|SMTP)\b|\bTCPSocket\b|\bHTTParty\b|\bFaraday\b|\bLWP\b|\bHTTP::Tiny\b|\bIO::Socket\b"
    r"|\bcurl_exec\b|\bfsockopen\b|\bstream_socket_client\b|\bGuzzleHttp\b|\bmail\s*\("
    r"|\burlopen\b|\brequests\.(?:post|put|get|request)\b|\bhttpx\b|\bsocket\.(?:socket|create_connection)\b|\bsmtplib\b"
)
#: Calls that start a program, as far as their names say so.
_SPAWNS = re.compile(
    r"\b(?:execSync|execFile\w*|spawn\w*|child_process|shell_exec|passthru|proc_open|popen[234]?|system|subprocess|Open3"
    r"|qx|pcntl_exec|exec)\b|%x|`"
)
#: A program and at least one argument, without anything that could be an unfinished piece of a shell's syntax.
_COMMAND = re.compile(r"\s*[\w./~-]+\s+[^\s()\"'`][^()\"'`]{0,400}\Z")


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
    literals = [_quoted_text(match) for match in _LITERAL.finditer(code)][:_MOST_LITERALS]
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


def _quoted_text(match: re.Match[str]) -> str:
    return escapes(next((group for group in match.groups() if group is not None), ""))
