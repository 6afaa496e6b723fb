"""Markers in words: for parts that are unknown before the command runs, and for unquoted characters."""

from __future__ import annotations

from collections.abc import Iterable

#: Unicode noncharacters: no program has such a name, and ``syntax.readings`` removes them from input.
UNKNOWN = "\ufdd0"
REMOTE = "\ufdd1"
DECODED = "\ufdd2"
#: An unquoted ``{``, ``,`` and ``}``, and the position where an unquoted expansion is split into words.
OPEN = "\ufdd3"
COMMA = "\ufdd4"
CLOSE = "\ufdd5"
SPLIT = "\ufdd6"
#: Marks ``""``, so that an empty word is still a word.
EMPTY = "\ufdd7"
#: Precedes text given to a program directly, where the parser expects a file name.
INLINE = "\ufdd8"
#: Taint, beside the mark of an unknown part: content of a credential file or store, value of a secret variable.
SECRET = "\ufdd9"
TOKEN = "\ufdda"
#: Private data that is no key.
PRIVATE = "\ufddb"

#: The worst first.
TAINTS = (SECRET, TOKEN, PRIVATE)
UNKNOWNS = (UNKNOWN, REMOTE, DECODED)
ALL = (*UNKNOWNS, OPEN, COMMA, CLOSE, SPLIT, EMPTY, INLINE, SECRET, TOKEN, PRIVATE)

_PLAIN = str.maketrans({OPEN: "{", COMMA: ",", CLOSE: "}", SPLIT: " ", EMPTY: ""})
_SHOWN = str.maketrans({UNKNOWN: "?", REMOTE: "?", DECODED: "?", INLINE: "", SECRET: "", TOKEN: "", PRIVATE: ""})
_KNOWN = str.maketrans(dict.fromkeys((*UNKNOWNS, SECRET, TOKEN, PRIVATE), ""))


def plain(text: str) -> str:
    """Without the marks of quoting; unknown parts stay."""
    return text.translate(_PLAIN)


def shown(text: str) -> str:
    """For display: an unknown part is a question mark."""
    return text.translate(_PLAIN).translate(_SHOWN)


def known_part(text: str) -> str:
    """As if every unknown part were empty."""
    return text.translate(_KNOWN)


def taint_of(text: str) -> str:
    """The worst taint in a text, or nothing."""
    return next((mark for mark in TAINTS if mark in text), "")


def worst_taint(taints: Iterable[str]) -> str:
    """The worst of several taints, or nothing."""
    given = set(taints)
    return next((mark for mark in TAINTS if mark in given), "")


def is_known(text: str) -> bool:
    """Whether no part of the text is unknown."""
    return UNKNOWN not in text and REMOTE not in text and DECODED not in text


def is_subscript(text: str) -> bool:
    """Whether bash would run a command in evaluating the text as a name or as arithmetic: ``a[$(command)]``."""
    start = text.find("[") if "$(" in text or "`" in text else -1
    return start > 0 and text[start - 1].isidentifier() and ("$(" in text[start:] or "`" in text[start:])
