"""Interpreters: the code they run, from an argument, standard input or a file."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from hermes.policy.call import Call, without_version
from hermes.policy.programs.inline.harmless import writes_of, writes_of_call
from hermes.policy.programs.inline.python_code import Writes
from hermes.policy.programs.output.pieces import piece
from hermes.policy.shell.flow import PROGRAM, Flow, text_flow
from hermes.policy.shell.words import by_program, escapes, names

if TYPE_CHECKING:
    from hermes.policy.shell.reader import Shell

#: For each language, the options whose value is code: single letters, then long names.
INLINE = by_program(
    {
        "python pypy expect guile": ("c", names("")),
        "ipython": ("c", names("c")),
        "perl": ("eE", names("")),
        "ruby lua luajit rscript r groovy scala ghc osascript raku swift gnuplot": ("e", names("")),
        "jshell irb pry iex ghci sbcl clisp racket octave maxima scheme janet fennel": ("e", names("eval")),
        "elixir": ("e", names("eval")),
        "puppet chef-apply": ("e", names("execute")),
        "rake": ("eEp", names("execute execute-print execute-continue")),
        "node nodejs bun": ("ep", names("eval print")),
        "deno erl crystal": ("", names("eval")),
        "php": ("rBRE", names("run")),
        "julia": ("eE", names("eval print")),
        "tclsh m4": ("", names("")),
        "emacs": ("", names("eval execute")),
        "gdb": ("", names("ex eval-command")),
    }
)
#: Letters that take a value other than code.
_VALUES = {"python": "WXQ", "perl": "I", "ruby": "IrC", "node": "r", "php": "dcfFStz", "lua": "l", "gdb": "pxds"}
#: Letters after which the rest of the word is a value.
_ATTACHED = {"perl": "MmFiDx", "ruby": "KEWF0", "python": ""}
#: Languages that may read their input even beside a script, with one of these options.
_PROMPTS = names("python pypy node nodejs php ruby lua")
_INTERACTIVE = names("-i -a --interactive")
_QUESTIONS = names("--version -V -v --help -h")
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
        _ask_or_note(shell, call, writes_of_call(language, call.args, code, call.paths))
        _look(shell, call, "\n".join([code, *rest]))
        return call.stdin.made_into(None, "program")
    prompts = language in _PROMPTS and not _INTERACTIVE.isdisjoint(call.args)
    reads_input = not rest or rest[0] == "-" or prompts
    if reads_input and call.stdin.origin != "terminal" and _QUESTIONS.isdisjoint(call.args):
        _given(shell, call, call.stdin, language)
    if rest and rest[0] not in ("-", "-m"):
        _file(shell, call, rest[0], language)
    return call.stdin.made_into(None, "program")


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


def has_code(program: str, args: list[str]) -> bool:
    """Whether a program is an interpreter whose options hold the code that it runs."""
    language = program if program in INLINE else without_version(program)
    return language in INLINE and _code_and_operands(language, args)[0] is not None


def _code_and_operands(language: str, args: list[str]) -> tuple[str | None, list[str]]:
    """The code in the options, if any, and the remaining arguments."""
    letters, long = INLINE[language]
    values, attached = _VALUES.get(language, ""), _ATTACHED.get(language, "")
    at = 0
    while at < len(args):
        word = args[at]
        if word.lstrip("-").partition("=")[0] in long and (word.startswith("-") or language in ("deno", "crystal")):
            return _joined(letters, long, [*filter(None, [word.partition("=")[2]]), *args[at + 1 :]])
        if not word.startswith("-") or word in ("-", "--"):
            break
        if not word.startswith("--"):
            for position, letter in enumerate(word[1:], 2):
                if letter in letters:
                    return _joined(letters, long, [*filter(None, [word[position:]]), *args[at + 1 :]])
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


def _given(shell: Shell, call: Call, flow: Flow, language: str) -> None:
    """Code from a pipe, a here-document or a file written in this command line."""
    if flow.origin == "remote":
        shell.report("remote-script", call.source)
    elif flow.origin == "decoded":
        shell.report("decode-then-execute", call.source)
    elif flow.origin != "file":
        _ask_or_note(shell, call, None if flow.text is None else writes_of(language, flow.text, call.paths))
    if flow.text:
        _look(shell, call, flow.text)


def _ask_or_note(shell: Shell, call: Call, writes: Writes | None) -> None:
    """Report code that may do anything; of code that only writes files, remember what is in them."""
    if writes is None:
        shell.report("inline-code", call.source)
        return
    if writes:
        shell.unseen(call)
    for path, text in writes.items():
        shell.state.files[call.paths.resolve(path)] = PROGRAM if text is None else text_flow(text)


def _look_at_calls(shell: Shell, call: Call, code: str) -> None:
    """A script that was written in this session: what its calls delete, and whether they send credentials."""
    if _DELETES_TREE.search(code):
        shell.report("recursive-delete", call.source)
    if _SENDS.search(code) and any(map(shell.state.paths.secret_kind, filter(None, _literals(code)))):
        shell.report("send-credentials", call.source)


def _look(shell: Shell, call: Call, code: str, *, is_new: bool = False) -> None:
    """Report hardline effects of the code; the inline-code rule asks about the rest.

    ``is_new``: all rules count for the commands that it runs.
    """
    shell.budget.spend(100 + 8 * min(len(code), _LONGEST_SCRIPT))
    looked_at = code[:_LONGEST_SCRIPT]
    literals = _literals(looked_at)
    if _FORKS.search(looked_at):
        shell.report("fork-bomb", code)
    if _KILLS.search(looked_at):
        shell.report("kill-everything", code)
    if any(map(call.paths.is_raw_device, _OPENS.findall(looked_at))):
        shell.report("raw-device", code)
    deleted = literals if _DELETES.search(looked_at) else []
    if any(path.startswith(("/", "~", "..", "C:")) and call.paths.is_vital(path) for path in deleted):
        shell.report("delete-system-tree", code)
    all_rules = is_new and _SPAWNS.search(code) is not None
    commands = [*literals, " ".join(literals), "".join(literals)] if _RUNS.search(looked_at) else []
    for command in dict.fromkeys(filter(str.strip, commands)):
        shell.read_apart(command, only_hardline=not (all_rules and _COMMAND.match(command)))


def _literals(code: str) -> list[str]:
    """The first texts between quotes."""
    found = (next((group for group in match.groups() if group is not None), "") for match in _LITERAL.finditer(code))
    return [escapes(text) for text in islice(found, _MOST_LITERALS)]


def _awk(shell: Shell, call: Call) -> Flow:
    """An awk program is a filter like any other until it runs commands."""
    files = [shell.content_of(path).text or "" for path in call.values("f", "file")]
    program = " ".join([*call.args, *files])
    if _AWK_RUNS.search(program[:_LONGEST_SCRIPT]):
        shell.report("inline-code", call.source)
        _look(shell, call, program)
    return piece(call) or call.stdin.made_into(None, "program")


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
