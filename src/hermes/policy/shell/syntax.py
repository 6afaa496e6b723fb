"""Parsing of command text into syntax trees: removes disguises and works around known weaknesses of the parser.

The parser gets only ASCII, because its scanner crashes on some other characters: these are encoded as their number
between two control characters, which the grammar accepts as part of a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import local
from typing import TYPE_CHECKING

from hermes.policy.budget import StepBudget, TooComplex
from hermes.policy.shell.marks import ALL
from hermes.policy.shell.preparation import prepare

_BEGIN, _END = "\x11", "\x12"
_FOREIGN = re.compile(f"[^\x00-\x7f]|[{_BEGIN}{_END}]")
_WRITTEN = re.compile(f"{_BEGIN}([0-9a-f]+){_END}")


def to_parser(text: str) -> bytes:
    """The text encoded for the parser."""
    if not text.isascii() or _BEGIN in text or _END in text:
        text = _FOREIGN.sub(lambda match: f"{_BEGIN}{ord(match.group()):x}{_END}", text)
    return text.encode("ascii")


def from_parser(raw: bytes | None) -> str:
    """Text from the parser, decoded."""
    text = (raw or b"").decode("ascii")
    return _WRITTEN.sub(lambda match: chr(int(match.group(1), 16)), text) if _BEGIN in text else text


if TYPE_CHECKING:
    from tree_sitter import Node, Parser

#: Length bound (ReDoS): longer commands are judged up to here and reported as unreadable.
LONGEST = 65_536

_MARKS = re.compile("[" + "".join(ALL) + "]")
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|\x9b[0-?]*[ -/]*[@-~]"
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
#: Characters that make a terminal show something else than what runs (Trojan source).
_DECEPTIVE = re.compile("[\x08\x1b\x9b\u202a-\u202e\u2066-\u2069]|\r(?!\n|$)")
#: Homoglyphs: Cyrillic, Greek and mathematical characters that look like ASCII.
_LOOK_ALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u043c\u0442"
    "\u044c\u043a\u0475\ua731\u1d0f\u0261\u0269\u03bf\u03b1\u03c1\u03bd\u2215\u2044\u29f8\u2010\u2011"
    "\u2012\u2013\u2014\u2212\u2223\u01c0\uff0f",
    "aeopcyxijsdhqwmtbkvsogioapv///------||/",
)

#: At the start of a command the parser always reads braces as a block and brackets as a test.
_WORD_FIRST = re.compile(
    r"(^|[;&|({\n]|\b(?:then|do|else|exec|time)\s)(\s*)(?=\{[^\s{}]*[,.][^\s{}]*\}|\[[^\s\[\]][^\s\[]*\])"
)
_READ_WRITE = re.compile(r"<>")
#: What the parser's running time depends on, outside of quotes.
_SHAPE = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|[|(){}]", re.DOTALL)
_MOST_PIPES = 200
_DEEPEST_NESTING = 80
_threads = local()


def readings(command: str) -> Iterator[str]:
    """The text as written, and as it looks when that differs: both must be harmless.

    Only the text as written would run, but the user approves what it looks like.
    """
    if command.isascii() and command.isprintable():
        yield command
        return
    text = _MARKS.sub("\ufffd", command.encode("utf-8", "replace").decode())
    yield text
    plain = _undisguised(text)
    if plain != text:
        yield plain


def _undisguised(text: str) -> str:
    from unicodedata import normalize  # only needed for non-ASCII text

    text = _INVISIBLE.sub("", _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n"))
    return text if text.isascii() else normalize("NFKC", text).translate(_LOOK_ALIKES)


def is_deceptive(command: str) -> bool:
    """Whether a terminal would hide or reorder parts of the text."""
    return not command.isprintable() and _DECEPTIVE.search(command) is not None


def parse(text: str, budget: StepBudget) -> tuple[list[Node], bool]:
    """The syntax trees of a script, several for ambiguous text; and whether all of it was understood."""
    parser = _parser()

    def tree(text: str) -> Node:
        budget.spend(40 + len(text))
        _check_shape(text)
        return parser.parse(to_parser(text)).root_node

    prepared = prepare(text, lambda inner: not tree(inner).has_error, budget)
    roots = [tree(prepared.text), *map(tree, prepared.broken)]
    readable = not prepared.broken
    if roots[0].has_error:
        mended = _READ_WRITE.sub(">", _WORD_FIRST.sub(r'\1\2""', prepared.text))
        roots.append(tree(mended))
        readable = readable and not roots[-1].has_error
    return roots, readable


def _check_shape(text: str) -> None:
    """Refuse text for which the parser takes more than linear time: very long pipelines, very deep nesting."""
    if text.count("|") <= _MOST_PIPES and text.count("(") + text.count("{") <= _DEEPEST_NESTING:
        return
    pipes = depth = deepest = 0
    for match in _SHAPE.finditer(text):
        mark = match.group()
        if mark == "|":
            pipes += 1
        elif mark in "({":
            depth += 1
            deepest = max(deepest, depth)
        elif mark in ")}":
            depth = max(0, depth - 1)
    if pipes > _MOST_PIPES or deepest > _DEEPEST_NESTING:
        raise TooComplex


def _parser() -> Parser:
    parser: Parser | None = getattr(_threads, "parser", None)
    if parser is None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        parser = _threads.parser = Parser(Language(tree_sitter_bash.language()))
    return parser
