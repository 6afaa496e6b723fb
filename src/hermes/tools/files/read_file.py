"""The ``read_file`` tool: a window of numbered lines of a text file."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hermes.base.scope import Interrupt
from hermes.tools.arguments import bounded_int
from hermes.tools.files.opening import NotAFile, OpenedFile, open_to_read
from hermes.tools.files.paths import kind_of, similar_files, why
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result

_DEFAULT_LIMIT = 500
_CHUNK = 1 << 20
_SNIFFED = 8_192

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MARKS = tuple(mark for mark, _ in _BYTE_ORDER_MARKS)

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/x-icon"),
)

_NOT_UTF8 = "not valid UTF-8; bytes that could not be read are shown as \ufffd"

#: Control characters that text does not use; a file that is not UTF-8 and full of those is binary.
_TEXT_BYTES = bytes({7, 8, 9, 10, 12, 13, 27} | set(range(0x20, 0x100)))


@dataclass(slots=True)
class TextWindow:
    """Lines ``first`` to ``first + len(lines) - 1`` of a text that has ``total_lines`` lines and ``size`` bytes."""

    first: int
    lines: list[bytes]
    total_lines: int
    size: int
    #: The last line of the window ends with a line break.
    ended: bool
    #: Some line was longer than the longest kept.
    cut: bool


def run_read_file(args: Args, context: ToolContext) -> str:
    """Read ``path`` from line ``offset``, at most ``limit`` lines; see the tool's schema."""
    try:
        file = open_to_read(args.get("path"), context)
    except NotAFile as error:
        return _not_a_file(error.path, error.mode)
    except ValueError as error:
        return _failed(str(error))
    except OSError as error:
        return _unreachable(str(error.filename), error)
    try:
        return _read(file, args, context)
    except OSError as error:
        return _failed(f"{file.path} cannot be read: {why(error)}")
    finally:
        os.close(file.descriptor)


def _read(file: OpenedFile, args: Args, context: ToolContext) -> str:
    descriptor, path, size = file
    limits = context.limits
    head = os.read(descriptor, min(size + 1, _CHUNK) if size else _CHUNK)
    start = head[:_SNIFFED]
    chunks = _chunks(descriptor, head, context.scope.interrupt)
    encoding = ""
    if start.startswith(_MARKS):
        encoding = next(name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark))
        chunks = _transcoded(chunks, encoding)
    elif b"\0" in start:
        return _binary(path, start, size)
    window = cut_window(
        chunks,
        bounded_int(args, "offset", 1, 1, 1 << 62),
        bounded_int(args, "limit", _DEFAULT_LIMIT, 1, limits.max_read_lines),
        longest=4 * limits.max_line_length + 4,
        budget=4 * limits.max_read_chars,
    )
    data = b"\n".join(window.lines)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        if len(data.translate(None, _TEXT_BYTES)) * 10 > len(data):
            return _binary(path, start, size)
        text = data.decode(errors="replace")
        encoding = _NOT_UTF8
    return _present(window, text, encoding, size, context)


def cut_window(chunks: Iterable[bytes], first: int, count: int, longest: int, budget: int) -> TextWindow:
    """Lines ``first`` (from 1) to ``first + count - 1``; the rest is only counted.

    Of each line at most ``longest`` bytes are kept, and no further line is taken once ``budget`` bytes are.
    """
    lines: list[bytes] = []
    #: The beginning of an incomplete line.
    begun: bytes | None = None
    newlines = size = kept = 0
    cut, last_byte = False, b"\n"
    for chunk in chunks:
        size += len(chunk)
        last_byte = chunk[-1:]
        skipped = min(max(first - 1 - newlines, 0), chunk.count(b"\n"))
        newlines += skipped
        if newlines < first - 1:
            continue
        rest = chunk.split(b"\n", skipped)[-1]
        if len(lines) < count and kept < budget:
            *pieces, rest = rest.split(b"\n", count - len(lines))
            if begun is None and len(chunk) <= longest and kept + len(chunk) < budget:  # a small file
                lines += pieces
                newlines += len(pieces)
                kept += len(chunk)
                pieces = []
            for taken, piece in enumerate(pieces):
                if kept >= budget:
                    rest = b"\n".join((*pieces[taken:], rest))
                    break
                line, begun = (begun or b"") + piece, None
                cut |= len(line) > longest
                lines.append(line[:longest])
                newlines += 1
                kept += min(len(line), longest) + 1
        if len(lines) >= count or kept >= budget:
            newlines += rest.count(b"\n")
        elif rest:
            line = (begun or b"") + rest
            cut |= len(line) > longest
            begun = line[:longest]
    total = newlines + (last_byte != b"\n")
    return TextWindow(first, lines if begun is None else [*lines, begun], total, size, begun is None, cut)


def _present(window: TextWindow, text: str, encoding: str, size: int, context: ToolContext) -> str:
    limits = context.limits
    notes: dict[str, Any] = {}
    if "\r" in text:
        text, notes["line_endings"] = _without_carriage_returns(text, window.ended)
    lines = text.split("\n") if window.lines else []
    cut = window.cut
    if len(text) > limits.max_line_length:
        lines, shortened = _shortened(lines, limits.max_line_length)
        cut = cut or shortened
    if len(text) + 8 * len(lines) > limits.max_read_chars:
        lines = _fitting(lines, limits.max_read_chars)
    last = window.first + len(lines) - 1
    content = "\n".join([f"{number:6}|{line}" for number, line in enumerate(lines, window.first)])
    if lines and (window.ended or last < window.total_lines):
        content += "\n"
    # A character cut in two at the end of an overlong line is not shown.
    if encoding and (encoding != _NOT_UTF8 or "\ufffd" in content):
        notes["encoding"] = encoding
    _explain(notes, window, last, cut, len(lines) < len(window.lines), context)
    if cut or last < window.total_lines:
        notes = {"truncated": True, **notes}
    return tool_result(content=content, total_lines=window.total_lines, file_size=size or window.size, **notes)


def _explain(
    notes: dict[str, Any], window: TextWindow, last: int, cut: bool, too_long: bool, context: ToolContext
) -> None:
    """Note what is missing from the content and how to get it."""
    total = window.total_lines
    if window.first > max(total, 1):
        notes["hint"] = f"the file has {total} lines; offset {window.first} is past its end"
    elif last < total:
        notes["next_offset"] = last + 1
        notes["truncated_by"] = "characters" if too_long else "lines"
        notes["hint"] = f"lines {window.first} to {last} of {total}; continue with offset={last + 1}"
    elif cut:
        notes["truncated_by"] = "line_length"
        notes["hint"] = f"lines longer than {context.limits.max_line_length} characters were cut"


def _chunks(descriptor: int, head: bytes, interrupt: Interrupt) -> Iterator[bytes]:
    chunk = head
    while chunk:
        yield chunk
        interrupt.check()
        chunk = os.read(descriptor, _CHUNK)


def _transcoded(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield from filter(None, (decoder.decode(chunk).encode(),))
    yield from filter(None, (decoder.decode(b"", final=True).encode(),))


def _without_carriage_returns(text: str, ended: bool) -> tuple[str, str]:
    """The text with plain line breaks, and the name of the style it has."""
    breaks = text.count("\n")
    paired = text.count("\r\n")
    if ended and text.endswith("\r"):
        text, breaks, paired = text[:-1], breaks + 1, paired + 1
    return text.replace("\r\n", "\n"), "crlf" if paired == breaks else "mixed" if paired else "lf"


def _shortened(lines: list[str], longest: int) -> tuple[list[str], bool]:
    mark = f" [… cut after {longest} characters]"
    kept = [line if len(line) <= longest else line[:longest] + mark for line in lines]
    return kept, any(len(line) > longest for line in lines)


def _fitting(lines: list[str], room: int) -> list[str]:
    """As many lines as fit, but at least one, so that pagination always advances."""
    used = 0
    for count, line in enumerate(lines):
        used += len(line) + 8
        if used > room and count:
            return lines[:count]
    return lines


def _failed(message: str, **extra: Any) -> str:
    return tool_result(content="", total_lines=0, file_size=0, error=message, **extra)


def _binary(path: str, start: bytes, size: int) -> str:
    image = next((kind for magic, kind in _IMAGES if start.startswith(magic)), None)
    if image == "image/webp" and start[8:12] != b"WEBP":
        image = None
    common = {"content": "", "total_lines": 0, "file_size": size, "is_binary": True}
    if image:
        hint = "an image has no lines to show; use a tool that looks at images"
        return tool_result(**common, is_image=True, mime_type=image, hint=hint)
    error = f"{path} is a binary file and has no lines to show; use the terminal (file, xxd, strings) to inspect it"
    return tool_result(**common, error=error)


def _unreachable(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return _failed(f"File not found: {path}", similar_files=similar_files(path))
    return _failed(f"{path} cannot be read: {why(error)}")


def _not_a_file(path: str, mode: int) -> str:
    hint = "; use search_files with target=files to list it" if stat.S_ISDIR(mode) else ""
    return _failed(f"{path} is {kind_of(mode)}, not a file with lines to read{hint}")
