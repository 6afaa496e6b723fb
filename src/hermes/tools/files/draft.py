"""The files a patch changes, held in memory until all of it is known to fit."""

# Paths are strings here: they come and go as strings, and Path is slow.

from __future__ import annotations

import os
import stat

from hermes.tools.files.atomic import Change, apply_changes
from hermes.tools.files.diff import unified_diff
from hermes.tools.files.patch_v4a import PatchError
from hermes.tools.files.paths import display_path, kind_of, resolve_path, similar_files, why
from hermes.tools.files.text_file import TextFile, decode_text
from hermes.tools.registry import ToolContext

_MAX_SIZE = 64 << 20


class Draft:
    """A view of the file system with changes that are not on disk yet. Its methods raise PatchError."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._changes: dict[str, Change] = {}

    def locate(self, path: object, *, through_links: bool = True) -> str:
        """The real path that ``path`` names, if it may be changed."""
        try:
            resolved = resolve_path(path, self._context.cwd)
        except ValueError as error:
            raise PatchError(str(error)) from None
        refused = self._context.guard.refusal_to_write(resolved)
        if refused:
            raise PatchError(refused)
        if not through_links and os.path.islink(resolved):
            raise PatchError(f"{resolved} is a symbolic link; move or delete it with the terminal")
        return os.path.realpath(resolved)

    def exists(self, path: str) -> bool:
        """Whether there would be something at ``path`` after the changes so far."""
        change = self._changes.get(path)
        return change.after is not None if change else os.path.lexists(path)

    def read(self, path: str) -> TextFile:
        """The file as it would be after the changes so far."""
        change = self._changes.get(path)
        data = change.after if change else _read_bytes(path)
        if data is None:
            raise PatchError(f"{path} is deleted earlier in the same patch")
        file = decode_text(data)
        if file is None:
            raise PatchError(f"{path} is not a text file")
        return file

    def write(self, path: str, file: TextFile, text: str, like: str | None = None) -> None:
        """Let the file have this text, in the encoding of ``file``."""
        try:
            data = file.encode(text)
        except UnicodeEncodeError:
            raise PatchError(f"the new text has a character that {path} cannot hold in {file.encoding}") from None
        change = self._changes.get(path)
        if change is None:
            before = _read_bytes(path) if os.path.lexists(path) else None
            change = self._changes[path] = Change(path, before, None)
        change.after, change.like = data, like

    def delete(self, path: str) -> None:
        """Let the file be gone."""
        change = self._changes.get(path)
        if change is None:
            change = self._changes[path] = Change(path, _read_bytes(path), None)
        change.after = None

    def commit(self) -> None:
        """Put everything on disk, all or nothing."""
        changes = [change for change in self._changes.values() if change.before != change.after]
        try:
            apply_changes(changes)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise PatchError(f"nothing was changed: {where}{why(error)}") from None

    def diff(self) -> str:
        """Everything that changes, as one unified diff."""
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


def _read_bytes(path: str) -> bytes:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise PatchError(f"{path} is {kind_of(status.st_mode)}, not a file")
        if status.st_size > _MAX_SIZE:
            raise PatchError(f"{path} is larger than {_MAX_SIZE >> 20} MB; change it with the terminal (sed)")
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        near = ", ".join(similar_files(path))
        raise PatchError(f"File not found: {path}" + (f"; similar: {near}" if near else "")) from None
    except OSError as error:
        raise PatchError(f"{path} cannot be read: {why(error)}") from None
