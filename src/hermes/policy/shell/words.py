"""Quoting, escapes and brace expansion of words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from hermes.policy.shell.marks import CLOSE, COMMA, EMPTY, OPEN, SPLIT, UNKNOWN, plain

Row = TypeVar("Row")
#: More words than this from one pair of braces are not spelled out.
_MOST_WORDS = 64

_UNQUOTED = re.compile(r"\\(\n|.)|\$(\w+|[@*#?$!-])|[{},]|[ \t\n]+", re.DOTALL)
_DOUBLE = re.compile(r"\\([$`\"\\\n])|`((?:[^`\\]|\\.)*)`|\$(\w+|[@*#?$!-])", re.DOTALL)
_ANSI_C = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_C_LETTERS = dict(zip("ntrabfveE", "\n\t\r\a\b\f\v\x1b\x1b", strict=True))
_BRACED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_RANGE = re.compile(r"(-?[0-9]{1,9}|[A-Za-z])\.\.(-?[0-9]{1,9}|[A-Za-z])(?:\.\.-?[0-9]+)?")
_BLANKS = re.compile(r"[ \t\n]+")
_MARKS = {"{": OPEN, ",": COMMA, "}": CLOSE}


def unquoted(text: str, variable: Callable[[str], str]) -> str:
    """Unquoted text: escapes removed, variables expanded, braces marked."""

    def undo(match: re.Match[str]) -> str:
        escaped, name = match.group(1), match.group(2)
        if escaped is not None:
            return "" if escaped == "\n" else escaped
        return variable(name) if name is not None else _MARKS.get(match.group(0), SPLIT)

    return _UNQUOTED.sub(undo, text)


def double_quoted(text: str, variable: Callable[[str], str], backticks: Callable[[str], str]) -> str:
    """Text between double quotes or in a here-document."""

    def undo(match: re.Match[str]) -> str:
        escaped, script, name = match.groups()
        if escaped is not None:
            return "" if escaped == "\n" else escaped
        return backticks(script) if script is not None else variable(name)

    return _DOUBLE.sub(undo, text)


def escapes(text: str, null: str = "") -> str:
    """Text of ``$'…'``, ``echo -e`` and ``printf``; ``null`` stands for a byte of zero."""
    return _ANSI_C.sub(lambda match: _escape(match) or null, text) if "\\" in text else text


def _escape(match: re.Match[str]) -> str:
    hexadecimal, four, eight, octal, control, letter = match.groups()
    if control is not None:
        return chr(ord(control) & 0x1F)
    if letter is not None:
        return _ANSI_C_LETTERS.get(letter, letter if letter in "\\'\"?" else "\\" + letter)
    code = int(octal, 8) & 0xFF if octal is not None else int(hexadecimal or four or eight, 16)
    return chr(code) if 0 < code < 0x110000 else ""


def fields(text: str) -> list[str]:
    """The words of a marked text: split at expanded blanks, braces expanded."""
    parts = [part for part in text.split(SPLIT) if part] if SPLIT in text else [text]
    words: list[str] = []
    for part in parts:
        words += _spelled_out(part) if OPEN in part else [part]
    return [plain(word) for word in words if word]


def _spelled_out(text: str) -> list[str]:
    """``a{b,c}d`` as ``abd acd``, the innermost braces first."""
    waiting, done = [text], list[str]()
    while waiting:
        word = waiting.pop(0)
        match = _BRACED.search(word)
        if match is None:
            done.append(word)
            continue
        choices = _choices(match.group(1))
        if choices is None:
            choices = ["{" + match.group(1).replace(COMMA, ",") + "}"]
        waiting[:0] = [word[: match.start()] + choice + word[match.end() :] for choice in choices]
        if len(waiting) + len(done) > _MOST_WORDS:
            return [*done, *(_BRACED.sub(UNKNOWN, word) for word in waiting)]
    return [word for word in done if word]


def _choices(inside: str) -> list[str] | None:
    """The alternatives in braces, or the members of a range; None for literal braces."""
    if COMMA in inside:
        return inside.split(COMMA)
    match = _RANGE.fullmatch(inside)
    if match is None:
        return None
    first, last = match.groups()
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        return _members(int(first), int(last), str)
    if len(first) == len(last) == 1:
        return _members(ord(first), ord(last), chr)
    return None


def _members(first: int, last: int, spell: Callable[[int], str]) -> list[str]:
    if abs(last - first) >= _MOST_WORDS:
        return [spell(first), UNKNOWN, spell(last)]
    step = 1 if last >= first else -1
    return [spell(number) for number in range(first, last + step, step)]


def split_unquoted(value: str, separators: str) -> str:
    """An unquoted variable's value: blanks, or the characters of ``IFS``, separate words."""
    if separators.strip():
        value = value.translate(dict.fromkeys(map(ord, separators), SPLIT))
    return _BLANKS.sub(SPLIT, value)


def quoted(value: str) -> str:
    """A quoted value, which is a word even when empty."""
    return value or EMPTY


def names(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def by_program(table: Mapping[str, Row]) -> dict[str, Row]:
    """A table with a row for each program; as written, the key of a row may name several that are alike."""
    return {program: row for programs, row in table.items() for program in programs.split()}
