"""A text file as something to edit: plain line breaks inside, its own encoding and line endings on disk."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """The text, and what it takes to write a changed one back in the same manner."""

    text: str
    mark: bytes = b""
    encoding: str = "utf-8"
    #: Every line break is CRLF. A file that mixes them keeps its carriage returns in ``text``.
    crlf: bool = False

    def encode(self, text: str) -> bytes:
        """``text`` as bytes of this file's kind. Bytes that were no UTF-8 come back as they were."""
        if self.crlf:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.mark + text.encode(self.encoding, errors)


def decode_text(data: bytes) -> TextFile | None:
    """The file ``data`` holds, or None when it is no text."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    if not mark and b"\0" in data:
        return None
    try:
        text = data[len(mark) :].decode(encoding, "surrogateescape" if encoding == "utf-8" else "strict")
    except UnicodeDecodeError:
        return None
    breaks = text.count("\n")
    crlf = breaks > 0 and text.count("\r\n") == breaks
    return TextFile(text.replace("\r\n", "\n") if crlf else text, mark, encoding, crlf)
