"""Programs that print a piece of what they are given: of a path, or of known text."""

from __future__ import annotations

import re
from collections.abc import Callable
from posixpath import basename, dirname

from hermes.policy.call import Call, read_options
from hermes.policy.shell.flow import PROGRAM, Flow, text_flow
from hermes.policy.shell.marks import is_known
from hermes.policy.shell.words import by_program

_RANGE = re.compile(r"(\d{1,6})(-?)(\d{0,6})")
_COUNT = re.compile(r"-?(\d{1,6})")
_PRINTED_FIELD = re.compile(r"\s*\{\s*print\s+\$(\d{1,3}|NF)\s*;?\s*\}\s*")
#: A replacement without any character that means something to sed.
_PLAIN_REPLACEMENT = re.compile(r"s([/|,#:])((?:(?!\1)[\w /.-])+)\1((?:(?!\1)[\w /.-])*)\1(g?)")


def piece(call: Call) -> Flow | None:
    """The output of a program that prints a piece of its words or of its input; None when it is not known."""
    find = _PIECES.get(call.program)
    return None if find is None else find(call)


def _paths(change: Callable[[Call, str], str]) -> Callable[[Call], Flow]:
    def printed(call: Call) -> Flow:
        operands = read_options(call.args, "s").operands
        return text_flow("".join(f"{change(call, word)}\n" for word in operands[:16])) if operands else PROGRAM

    return printed


def _base_names(call: Call) -> Flow:
    operands = read_options(call.args, "s").operands
    suffixes = call.values("s", "suffix")
    if len(operands) == 2 and not call.options.has("as", "multiple", "suffix"):
        suffixes, operands = operands[1:], operands[:1]
    names = [basename(word.rstrip("/")) or "/" for word in operands[:16]]
    return text_flow("".join(f"{name.removesuffix(suffixes[0]) if suffixes else name}\n" for name in names))


def _of_lines(pick: Callable[[Call], Callable[[str], str] | None]) -> Callable[[Call], Flow | None]:
    """For programs that print a piece of each line of their input."""

    def printed(call: Call) -> Flow | None:
        text, change = call.stdin.text, pick(call)
        if text is None or change is None or not is_known(text):
            return None
        return call.stdin.made_into("".join(f"{change(line)}\n" for line in text.splitlines()), "text")

    return printed


def _cut(call: Call) -> Callable[[str], str] | None:
    characters, fields = call.values("cb", "characters", "bytes"), call.values("f", "fields")
    match = _RANGE.fullmatch((characters or fields or [""])[0])
    if match is None:
        return None
    first = int(match.group(1)) - 1
    last = int(match.group(3)) if match.group(3) else None if match.group(2) else first + 1
    if characters:
        return lambda line: line[first:last]
    mark = ([*call.values("d", "delimiter"), "\t"])[0] or "\t"
    return lambda line: mark.join(line.split(mark)[first:last]) if mark in line else line


def _field(call: Call) -> Callable[[str], str] | None:
    operands = read_options(call.args, "Fv").operands
    match = _PRINTED_FIELD.fullmatch(operands[0]) if len(operands) == 1 else None
    if match is None:
        return None
    number = -1 if match.group(1) == "NF" else int(match.group(1)) - 1
    mark = next(iter(call.values("F")), None)

    def field(line: str) -> str:
        parts = line.split(mark or None)
        return line if match.group(1) == "0" else parts[number] if -1 <= number < len(parts) else ""

    return field


def _replaced(call: Call) -> Callable[[str], str] | None:
    operands = read_options(call.args).operands
    match = _PLAIN_REPLACEMENT.fullmatch(operands[0]) if len(operands) == 1 else None
    if match is None or "." in match.group(2):
        return None
    _, old, new, every = match.groups()
    return lambda line: line.replace(old, new, -1 if every else 1)


def _end(call: Call) -> Flow | None:
    """``head`` and ``tail`` of known text."""
    text = call.stdin.text
    operands = [word for word in read_options(call.args, "nc").operands if not word.isdecimal()]
    if text is None or operands or not is_known(text):
        return None
    counts = call.values("c", "bytes") or call.values("n", "lines") or [w for w in call.args if w[1:].isdecimal()]
    match = _COUNT.fullmatch(counts[0] if counts else "10")
    if match is None:
        return None
    count = int(match.group(1))
    parts = text if call.options.has("c", "bytes") else text.splitlines(keepends=True)
    kept = parts[:count] if call.program == "head" else parts[-count:] if count else parts[:0]
    return call.stdin.made_into("".join(kept), "text")


_PIECES: dict[str, Callable[[Call], Flow | None]] = by_program(
    {
        "dirname": _paths(lambda _call, word: dirname(word.rstrip("/")) or ("/" if word[:1] == "/" else ".")),
        "realpath grealpath": _paths(lambda call, word: call.paths.resolve(word)),
        "readlink greadlink": lambda call: (
            _paths(lambda call, word: call.paths.resolve(word))(call)
            if call.options.has("fem", "canonicalize", "canonicalize-existing", "canonicalize-missing")
            else PROGRAM
        ),
        "basename": _base_names,
        "cut gcut": _of_lines(_cut),
        "awk gawk mawk nawk": _of_lines(_field),
        "sed gsed": _of_lines(_replaced),
        "head tail": _end,
    }
)
