"""Text for the parser, which must not see anything but ASCII: its scanner crashes the process on some other characters.

A character outside of ASCII is written as its number between two control characters, which the grammar takes for a part
of a word, as a shell takes the character itself.
"""

from __future__ import annotations

import re

_BEGIN, _END = "\x11", "\x12"
_FOREIGN = re.compile(f"[^\x00-\x7f]|[{_BEGIN}{_END}]")
_WRITTEN = re.compile(f"{_BEGIN}([0-9a-f]+){_END}")


def to_parser(text: str) -> bytes:
    """The text as the parser gets it."""
    if not text.isascii() or _BEGIN in text or _END in text:
        text = _FOREIGN.sub(lambda match: f"{_BEGIN}{ord(match.group()):x}{_END}", text)
    return text.encode("ascii")


def from_parser(raw: bytes | None) -> str:
    """What a part of the parser's text stands for."""
    text = (raw or b"").decode("ascii")
    return _WRITTEN.sub(lambda match: chr(int(match.group(1), 16)), text) if _BEGIN in text else text
