"""The note that an installed plugin carries: where it came from, which revision, and which files it brought."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from hermes.errors import PluginError
from hermes.plugins.install.source import InstallSource

FILE_NAME = ".hermes-install.json"

#: Not part of a plugin, wherever it lies.
IGNORED = frozenset({".git", ".hg", ".svn", "__pycache__", ".pytest_cache", ".venv", ".DS_Store", FILE_NAME})


class InstallRecord(msgspec.Struct, frozen=True):
    """How a plugin got where it is."""

    source: InstallSource
    #: The commit that was fetched; for a folder, a digest of what was copied.
    revision: str
    #: In seconds since the epoch.
    installed_at: float
    #: The files that came with it and their digests, so that an update knows what a person changed or added.
    files: dict[str, str] = {}


def read_record(folder: Path | None) -> InstallRecord | None:
    """The note of an installed plugin; none for one that was put there by hand."""
    if folder is None:
        return None
    try:
        return msgspec.json.decode((folder / FILE_NAME).read_bytes(), type=InstallRecord)
    except (OSError, msgspec.DecodeError):
        return None


def write_record(folder: Path, record: InstallRecord) -> None:
    """Leave the note in the plugin's folder."""
    file = folder / FILE_NAME
    file.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    file.chmod(0o600)


def digests(folder: Path) -> dict[str, str]:
    """Every file of a plugin with a digest of its content; a link counts as what it says."""
    found: dict[str, str] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in IGNORED)
        links = [name for name in folders if Path(place, name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(place, name)
            if name not in IGNORED:
                found[path.relative_to(folder).as_posix()] = _digest(path)
    return found


def _digest(path: Path) -> str:
    try:
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    except OSError as error:
        raise PluginError(f"{path}: cannot be read: {error.strerror}") from None
    return hashlib.sha256(data).hexdigest()


def tree_digest(files: dict[str, str]) -> str:
    """One digest for all files."""
    return "sha256:" + hashlib.sha256(msgspec.json.encode(sorted(files.items()))).hexdigest()
