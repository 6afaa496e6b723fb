"""Notes: entries in a small file, kept between conversations, that the user may edit too."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes.base.config.files import file_lock
from hermes.base.errors import ConfigError, HermesError

#: The line between two entries.
DELIMITER = "§"
_BETWEEN = f"\n{DELIMITER}\n"

#: How long another process may hold the notes before an edit gives up.
_LOCK_SECONDS = 5.0


class NotesError(HermesError):
    """An edit that cannot be made; the file is as it was."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to the entries of a file."""

    #: ``add``, ``replace`` or ``remove``.
    action: str
    content: str = ""
    #: A part of the entry to replace or to remove, enough to tell it from the others.
    old_text: str = ""


class NoteFile:
    """The entries of one file, bounded in all. Edits are serialised across processes; a crash loses at most one."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.limit = limit

    def entries(self) -> list[str]:
        """The entries as they are now. Raises ``NotesError`` when the file cannot be read as text."""
        return split_entries(self._read("strict"))

    def readable_entries(self) -> list[str]:
        """The entries for display: invalid bytes are marked. None when the file cannot be read."""
        try:
            return split_entries(self._read("replace"))
        except NotesError:
            return []

    def edit(self, edits: Sequence[Edit]) -> list[str]:
        """Make all the edits or, with a ``NotesError``, none. Returns the entries afterwards."""
        with file_lock(self.path.with_name(".lock"), self._not_locked, seconds=_LOCK_SECONDS):
            before = self.entries()
            after = before
            for number, one in enumerate(edits, 1):
                where = f"operation {number} of {len(edits)}: " if len(edits) > 1 else ""
                after = _EDITS[one.action](after, one, where)
            size = size_of(after)
            # Shortening notes that are over the limit is allowed, even when it takes several steps.
            if size > self.limit and size >= size_of(before):
                raise NotesError(
                    f"these notes would take {size:,} of {self.limit:,} characters. Merge, shorten or remove entries "
                    f"in the same call with operations, then add the new one"
                )
            if after != before:
                self._write(_BETWEEN.join(after) + "\n" if after else "")
        return after

    def _read(self, errors: str) -> str:
        try:
            return self.path.read_bytes().decode("utf-8", errors)
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise NotesError(f"{self.path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise NotesError(f"{self.path} is not UTF-8 text; ask the user to repair or remove it") from None

    def _write(self, text: str) -> None:
        from hermes.base.config.files import write_atomically

        # This process holds the lock, so half-written files are left over from crashes.
        target = Path(os.path.realpath(self.path))
        for leftover in target.parent.glob(f".{target.name}.*.tmp"):
            leftover.unlink(missing_ok=True)
        try:
            write_atomically(self.path, text)
        except ConfigError as error:
            raise NotesError(str(error)) from None

    def _not_locked(self, error: OSError) -> NotesError:
        if isinstance(error, TimeoutError):
            return NotesError(f"another process holds {self.path}; try again later")
        return NotesError(f"{self.path.parent} cannot be written: {error.strerror}")


def split_entries(text: str) -> list[str]:
    """The entries of a file, however a person has spaced them."""
    entries: list[list[str]] = [[]]
    for line in text.split("\n"):
        if line.strip() == DELIMITER:
            entries.append([])
        else:
            entries[-1].append(line.rstrip("\r"))
    return [entry for lines in entries if (entry := "\n".join(lines).strip())]


def size_of(entries: Sequence[str]) -> int:
    """How many characters entries take in their file, which is what the limit is about."""
    return len(_BETWEEN.join(entries))


def _add(entries: list[str], edit: Edit, where: str) -> list[str]:
    content = _content(edit, where)
    return entries if content in entries else [*entries, content]


def _replace(entries: list[str], edit: Edit, where: str) -> list[str]:
    index = _index(entries, edit, where)
    return [*entries[:index], _content(edit, where), *entries[index + 1 :]]


def _remove(entries: list[str], edit: Edit, where: str) -> list[str]:
    index = _index(entries, edit, where)
    return [*entries[:index], *entries[index + 1 :]]


_EDITS: dict[str, Callable[[list[str], Edit, str], list[str]]] = {"add": _add, "replace": _replace, "remove": _remove}
ACTIONS = tuple(_EDITS)


def _content(edit: Edit, where: str) -> str:
    content = edit.content.replace("\r\n", "\n").strip()
    if not content:
        raise NotesError(f"{where}{edit.action} needs content, the text of the entry")
    if any(line.strip() == DELIMITER for line in content.split("\n")):
        raise NotesError(f"{where}a line with only {DELIMITER} separates entries; leave it out, or add two entries")
    return content


def _index(entries: list[str], edit: Edit, where: str) -> int:
    part = edit.old_text.strip()
    if not part:
        raise NotesError(f"{where}{edit.action} needs old_text, a part of that entry")
    exact = [index for index, entry in enumerate(entries) if entry == part]
    found = exact[:1] or [index for index, entry in enumerate(entries) if part in entry]
    if not found:
        raise NotesError(f"{where}no entry contains {part[:80]!r}")
    if len({entries[index] for index in found}) > 1:
        raise NotesError(f"{where}{len(found)} entries contain {part[:80]!r}; give more of its text")
    return found[0]
