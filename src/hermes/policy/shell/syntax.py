"""Command text into syntax trees: cleaned of disguises, with the parser's known weak spots written round."""

from __future__ import annotations

import re
from collections.abc import Iterator
from threading import local
from typing import TYPE_CHECKING

from hermes.policy.shell.ascii import to_parser
from hermes.policy.shell.marks import ALL
from hermes.policy.shell.preparation import prepare

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

#: Longer commands are judged as far as this, and called unreadable.
LONGEST = 65_536

_MARKS = re.compile("[" + "".join(ALL) + "]")
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])|\x9b[0-?]*[ -/]*[@-~]"
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
#: What makes a terminal show something else than what would run.
_DECEPTIVE = re.compile("[\x08\x1b\x9b\u202a-\u202e\u2066-\u2069]|\r(?!\n|$)")
#: Cyrillic, Greek and mathematical characters that look like those of a command.
_LOOK_ALIKES = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u04bb\u051b\u051d\u043c\u0442"
    "\u044c\u043a\u0475\ua731\u1d0f\u0261\u0269\u03bf\u03b1\u03c1\u03bd\u2215\u2044\u29f8\u2010\u2011"
    "\u2012\u2013\u2014\u2212\u2223\u01c0\uff0f",
    "aeopcyxijsdhqwmtbkvsogioapv///------||/",
)

#: At the beginning of a command the parser takes braces for a block and brackets for a test, whatever is in them.
_WORD_FIRST = re.compile(
    r"(^|[;&|({\n]|\b(?:then|do|else|exec|time)\s)(\s*)(?=\{[^\s{}]*[,.][^\s{}]*\}|\[[^\s\[\]][^\s\[]*\])"
)
_READ_WRITE = re.compile(r"<>")
_threads = local()


def readings(command: str) -> Iterator[str]:
    """The text as it stands, and as it looks when that differs: both must be harmless.

    Only the text as it stands would run, but a shell that reads other characters than a person does is no excuse.
    """
    text = _MARKS.sub("\ufffd", command.encode("utf-8", "replace").decode())
    yield text
    if text.isascii() and text.isprintable():
        return
    plain = _undisguised(text)
    if plain != text:
        yield plain


def _undisguised(text: str) -> str:
    from unicodedata import normalize  # only what is not plain ASCII needs it

    text = _INVISIBLE.sub("", _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n"))
    return text if text.isascii() else normalize("NFKC", text).translate(_LOOK_ALIKES)


def is_deceptive(command: str) -> bool:
    """Whether the text hides or reorders itself when a terminal shows it."""
    return _DECEPTIVE.search(command) is not None


def parse(text: str) -> tuple[list[Node], bool]:
    """The tree of a script, more than one where it can be read in more ways; and whether all of it was understood."""
    parser = _parser()

    def tree(text: str) -> Node:
        return parser.parse(to_parser(text)).root_node

    prepared = prepare(text, lambda inner: not tree(inner).has_error)
    roots = [tree(prepared.text), *map(tree, prepared.broken)]
    readable = not prepared.broken
    if roots[0].has_error:
        mended = _READ_WRITE.sub(">", _WORD_FIRST.sub(r'\1\2""', prepared.text))
        roots.append(tree(mended))
        readable = readable and not roots[-1].has_error
    return roots, readable


def _parser() -> Parser:
    parser: Parser | None = getattr(_threads, "parser", None)
    if parser is None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        parser = _threads.parser = Parser(Language(tree_sitter_bash.language()))
    return parser
