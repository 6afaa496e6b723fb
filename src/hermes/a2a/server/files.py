"""What a turn wrote, for callers that want the files and not only to hear of them."""

from __future__ import annotations

import logging
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from hermes.agent.events import TurnResult
from hermes.agent.verify import changed_paths
from hermes.sanitize import Redactor
from hermes.tools.files.guard import FileGuard

log = logging.getLogger("hermes.a2a")

#: More files than that are the caller's to fetch in another way.
_MOST_FILES = 20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file as it was when the turn ended."""

    #: Relative to the folder of the conversation.
    name: str
    media_type: str
    data: bytes


def files_of(
    result: TurnResult, folder: Path, guard: FileGuard, redactor: Redactor, max_bytes: int
) -> list[WrittenFile]:
    """The files that the turn's tools wrote in the folder, each once, but for those that must not leave."""
    folder = folder.resolve()
    places = dict.fromkeys((folder / path).resolve() for path in changed_paths(result.tool_calls))
    found: list[WrittenFile] = []
    for place in places:
        if len(found) == _MOST_FILES or not place.is_relative_to(folder) or guard.refusal(place):
            continue
        data = _read(place, max_bytes)
        if data is None:
            continue
        if _has_secret(data, redactor):
            log.warning("%s was not sent: it holds a key", place)
            continue
        kind = mimetypes.guess_type(place.name)[0] or "application/octet-stream"
        found.append(WrittenFile(place.relative_to(folder).as_posix(), kind, data))
    return found


def _read(place: Path, limit: int) -> bytes | None:
    """What the file holds; None when it is gone, no file, or too long."""
    try:
        if not place.is_file():
            return None
        with place.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        log.warning("%s was not sent: %s", place, error.strerror or type(error).__name__)
        return None
    if len(data) > limit:
        log.warning("%s was not sent: it has more than a2a.max_file_bytes (%d)", place, limit)
        return None
    return data


def _has_secret(data: bytes, redactor: Redactor) -> bool:
    text = data.decode("utf-8", "replace")
    return redactor.redact(text) != text
