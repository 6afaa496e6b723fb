"""Skill index: finds the skills in folders, and reads only those that are new or changed since the last time."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hermes.tools.skills.manifest import FILE_NAME, SkillManifest, read_manifest
from hermes.tools.skills.skills import SkillFolder

#: More folders than these in one place are not looked at.
MAX_SKILLS = 2_000


class _Entry(msgspec.Struct, array_like=True):
    """A manifest, and the state of the file that it was read from."""

    mtime_ns: int
    size: int
    inode: int
    path: str
    manifest: SkillManifest


class SkillIndex:
    """The manifests that were read before, kept in a file of the home."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, _Entry] | None = None

    def find(self, folders: Sequence[SkillFolder]) -> list[SkillManifest]:
        """The skills in these folders, in their order, those of a folder by name. Broken ones are among them."""
        known, seen, is_changed = self._load(), dict[str, _Entry](), False
        for folder in folders:
            for path, category, status in _skill_files(folder.path):
                key = f"{folder.source}:{folder.inside or ''}:{path}"
                entry = known.get(key)
                state = (status.st_mtime_ns, status.st_size, status.st_ino)
                if entry is None or (entry.mtime_ns, entry.size, entry.inode) != state:
                    manifest = read_manifest(Path(path).parent, folder.source, category, inside=folder.inside)
                    entry, is_changed = _Entry(*state, path, manifest), True
                seen[key] = entry
        if is_changed:
            self._store({**known, **seen})
        return [entry.manifest for entry in seen.values()]

    def _load(self) -> dict[str, _Entry]:
        if self._known is None:
            self._known = {}
            # A file that is missing, or was written by another version, is made again.
            with contextlib.suppress(OSError, msgspec.DecodeError):
                self._known = msgspec.json.decode(self._file.read_bytes(), type=dict[str, _Entry])
        return self._known

    def _store(self, entries: dict[str, _Entry]) -> None:
        kept = {key: entry for key, entry in entries.items() if os.path.exists(entry.path)}
        self._known = kept
        # A home that cannot be written only costs the time to read the skills again.
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = self._file.with_name(f"{self._file.name}.{os.getpid()}")
            draft.write_bytes(msgspec.json.encode(kept))
            draft.replace(self._file)


def _skill_files(folder: Path) -> Iterator[tuple[str, str, os.stat_result]]:
    """Each ``SKILL.md``: in the folders of ``folder``, and one level deeper in folders that sort them by category."""
    left = MAX_SKILLS
    for name, path in _subfolders(os.fspath(folder)):
        status = _status(f"{path}/{FILE_NAME}")
        if status is not None:
            yield f"{path}/{FILE_NAME}", "", status
            left -= 1
        else:
            for _, inner in _subfolders(path):
                status = _status(f"{inner}/{FILE_NAME}")
                if status is not None:
                    yield f"{inner}/{FILE_NAME}", name, status
                    left -= 1
        if left <= 0:
            return


def _subfolders(path: str) -> list[tuple[str, str]]:
    try:
        with os.scandir(path) as entries:
            return sorted((entry.name, entry.path) for entry in entries if entry.name[0] != "." and entry.is_dir())
    except OSError:
        return []


def _status(path: str) -> os.stat_result | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None
