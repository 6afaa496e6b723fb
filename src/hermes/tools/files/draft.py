"""Pending changes of a patch, in memory until all of it applies; text files and unified diffs."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass

from hermes.tools.files.atomic import FileChange, apply_changes
from hermes.tools.files.opening import FileRefused, writable_target
from hermes.tools.files.patch_v4a import PatchError
from hermes.tools.files.paths import display_path, resolve_path, similar_files, why
from hermes.tools.registry import ToolContext

_MAX_SIZE = 64 << 20


class Draft:
    """An overlay of the file system with changes not yet on disk. Its methods raise PatchError."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._changes: dict[str, FileChange] = {}

    def locate(self, path: object, *, through_links: bool = True) -> str:
        """The real path of ``path``, if it may be changed."""
        try:
            target = writable_target(path, self._context)
            resolved = resolve_path(path, self._context.cwd)
        except ValueError as error:
            raise PatchError(str(error)) from None
        if not through_links and os.path.islink(resolved):
            raise PatchError(f"{resolved} is a symbolic link; move or delete it with the terminal")
        return target

    def exists(self, path: str) -> bool:
        """Whether ``path`` would exist after the changes so far."""
        change = self._changes.get(path)
        return change.after is not None if change else os.path.lexists(path)

    def read(self, path: str) -> TextFile:
        """The file as it would be after the changes so far."""
        change = self._changes.get(path)
        data = change.after if change else self._read_bytes(path)
        if data is None:
            raise PatchError(f"{path} is deleted earlier in the same patch")
        file = decode_text(data)
        if file is None:
            raise PatchError(f"{path} is not a text file")
        return file

    def write(self, path: str, file: TextFile, text: str, like: str | None = None) -> None:
        """Set the text of the file, in the encoding of ``file``."""
        try:
            data = file.encode(text)
        except UnicodeEncodeError:
            raise PatchError(f"the new text has a character that {path} cannot hold in {file.encoding}") from None
        change = self._changes.get(path)
        if change is None:
            before = self._read_bytes(path) if os.path.lexists(path) else None
            change = self._changes[path] = FileChange(path, before, None)
        change.after, change.like = data, like

    def delete(self, path: str) -> None:
        """Delete the file."""
        change = self._changes.get(path)
        if change is None:
            change = self._changes[path] = FileChange(path, self._read_bytes(path), None)
        change.after = None

    def commit(self) -> None:
        """Write everything atomically."""
        changes = [change for change in self._changes.values() if change.before != change.after]
        try:
            apply_changes(changes)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise PatchError(f"nothing was changed: {where}{why(error)}") from None

    def _read_bytes(self, path: str) -> bytes:
        try:
            with self._context.open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size > _MAX_SIZE:
                    raise PatchError(f"{path} is larger than {_MAX_SIZE >> 20} MB; change it with the terminal (sed)")
                return file.read()
        except FileNotFoundError:
            near = ", ".join(similar_files(path))
            raise PatchError(f"File not found: {path}" + (f"; similar: {near}" if near else "")) from None
        except OSError as error:
            raise PatchError(f"{path} cannot be read: {why(error)}") from None
        except FileRefused as error:
            raise PatchError(str(error)) from None

    def diff(self) -> str:
        """All changes as one unified diff."""
        parts: list[str] = []
        for change in self._changes.values():
            name = display_path(change.path, self._context.cwd)
            parts.append(unified_diff(_text(change.before), _text(change.after), name, name))
        return "".join(parts)

    def touched(self) -> dict[str, list[str]]:
        """The paths created, modified and deleted."""
        changes = self._changes.values()
        return {
            "files_modified": [c.path for c in changes if c.before is not None and c.after is not None],
            "files_created": [c.path for c in changes if c.before is None and c.after is not None],
            "files_deleted": [c.path for c in changes if c.before is not None and c.after is None],
        }


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    file = decode_text(data)
    return file.text if file else "[binary file]\n"


_CONTEXT = 3
_MAX_CHARS = 20_000

#: Beyond this many line pairs a minimal diff takes seconds; the changed block is then shown whole.
_MAX_COMPARISONS = 4_000_000


def unified_diff(before: str | None, after: str | None, old_name: str, new_name: str) -> str:
    """The unified diff of two texts; None is a missing file."""
    old, new = _lines(before or ""), _lines(after or "")
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    first = max(start - _CONTEXT, 0)
    last = max(end - _CONTEXT, 0)
    hunks = _hunks(old[first : len(old) - last], new[first : len(new) - last], first)
    if not hunks:
        return ""
    old_label = f"a/{old_name.lstrip('/')}" if before is not None else "/dev/null"
    new_label = f"b/{new_name.lstrip('/')}" if after is not None else "/dev/null"
    text = f"--- {old_label}\n+++ {new_label}\n" + "".join(map(_with_line_end, hunks))
    return text if len(text) <= _MAX_CHARS else text[:_MAX_CHARS] + "\n[… the rest of the diff is left out …]\n"


def _lines(text: str) -> list[str]:
    lines = [line + "\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


def _hunks(old: list[str], new: list[str], skipped: int) -> list[str]:
    """The hunks of the part that differs, with line numbers counted from the start of the file."""
    from difflib import SequenceMatcher

    if len(old) * len(new) > _MAX_COMPARISONS:
        header = f"@@ -{skipped + 1},{len(old)} +{skipped + 1},{len(new)} @@\n"
        return [header, *("-" + line for line in old), *("+" + line for line in new)]
    lines: list[str] = []
    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT):
        (_, old_start, _, new_start, _), (_, _, old_end, _, new_end) = group[0], group[-1]
        old_range = f"{skipped + old_start + 1},{old_end - old_start}"
        new_range = f"{skipped + new_start + 1},{new_end - new_start}"
        lines.append(f"@@ -{old_range} +{new_range} @@\n")
        for tag, i, j, k, m in group:
            if tag == "equal":
                lines.extend(" " + line for line in old[i:j])
            else:
                lines.extend("-" + line for line in old[i:j])
                lines.extend("+" + line for line in new[k:m])
    return lines


def _with_line_end(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _common(left: list[str], right: list[str]) -> int:
    """The number of common first lines."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A text file being edited: plain line breaks in memory, its own encoding and line endings on disk."""

    text: str
    mark: bytes = b""
    encoding: str = "utf-8"
    #: Every line break is CRLF. A file that mixes them keeps its carriage returns in ``text``.
    crlf: bool = False

    def encode(self, text: str) -> bytes:
        """``text`` encoded like this file. Bytes that were not UTF-8 are restored."""
        if self.crlf:
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.mark + text.encode(self.encoding, errors)


def decode_text(data: bytes) -> TextFile | None:
    """The decoded file, or None when it is binary."""
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
