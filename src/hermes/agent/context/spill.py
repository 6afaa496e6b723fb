"""Very long texts that plugins add to a conversation: kept in a file, with a preview in their place."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

log = logging.getLogger("hermes.turn")

_PREVIEW_CHARS = 500


def spill(text: str, folder: Path, max_chars: int) -> str:
    """The text itself, or its beginning and end and the file that has all of it."""
    if len(text) <= max_chars:
        return text
    data = text.encode("utf-8", "replace")
    path = folder / f"context-{hashlib.sha256(data).hexdigest()[:16]}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
        where = f"all of it is in {path}"
    except OSError as error:
        log.warning("a text of %d characters is not kept: %s", len(text), error.strerror)
        where = "the rest could not be kept"
    left_out = len(text) - 2 * _PREVIEW_CHARS
    return f"{text[:_PREVIEW_CHARS]}\n[{left_out} characters left out; {where}]\n{text[-_PREVIEW_CHARS:]}"
