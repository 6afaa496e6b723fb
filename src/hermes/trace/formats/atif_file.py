"""Trajectory files: one per session, whole or not there at all, private to their owner."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

DEFAULT_TEMPLATE = "trajectory-{session_id}.json"

_PLACEHOLDER = "{session_id}"
_LONGEST_NAME = 120
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def write_trajectory(folder: Path, template: str, document: dict[str, Any]) -> Path:
    """Write a document under the name its session gives it, replacing an older one; the path.

    Readers see the old file or the new one, never half of one. ``OSError`` when the folder cannot be written.
    """
    name = file_name(template, str(document.get("session_id") or document.get("trajectory_id") or ""))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    unfinished = folder / f".{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    data = msgspec.json.encode(document)
    try:
        with os.fdopen(os.open(unfinished, _NEW_FILE, 0o600), "wb") as file:
            file.write(data)
        unfinished.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    return path


def file_name(template: str, session_id: str) -> str:
    """The template with the session in it. Raises ``ValueError`` for one that is no plain file name."""
    rest = template.replace(_PLACEHOLDER, "")
    if "{" in rest or "}" in rest:
        raise ValueError(f"found {template!r}; the only placeholder allowed is {_PLACEHOLDER}")
    if not rest.strip(". ") or "/" in rest or "\\" in rest or "\0" in rest:
        raise ValueError(f"found {template!r}; allowed is a file name without folders, such as {DEFAULT_TEMPLATE}")
    return template.replace(_PLACEHOLDER, _safe(session_id))


def _safe(session_id: str) -> str:
    """The id as part of a file name: what could lead elsewhere becomes a dash, and two ids stay two names."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in session_id)[:_LONGEST_NAME]
    if kept == session_id and kept.strip("."):
        return kept
    import hashlib

    digest = hashlib.sha256(session_id.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{kept.strip('.')}-{digest}"
