"""Folders of principals: the part of a home that belongs to one caller."""

from __future__ import annotations

from pathlib import Path

FOLDER = "principals"
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def principal_home(home: Path, principal: str) -> Path:
    """The folder of a principal below the home; of the owner (the empty name) it is the home itself."""
    return home / FOLDER / _file_name(principal) if principal else home


def default_workspace(home: Path, principal: str) -> Path:
    """The folder that the work for a caller is done in, unless the configuration gives it another."""
    return principal_home(home, principal) / "workspace"


def make_private(folder: Path) -> Path:
    """Make a folder, and those above it that are missing, for the owner of the home alone."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return folder


def _file_name(principal: str) -> str:
    """The name as one file name: other characters are percent-encoded, and so is a dot at the start."""
    encoded = "".join(c if c in _SAFE else "".join(f"%{byte:02X}" for byte in c.encode()) for c in principal)
    return f"%2E{encoded[1:]}" if encoded.startswith(".") else encoded
