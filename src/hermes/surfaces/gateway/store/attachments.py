"""Files of incoming messages, in the workspace of their conversation: bounded in size, number and disk space."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermes.base.config.schema.gateway import GatewayConfig
from hermes.base.scope import new_id
from hermes.surfaces.gateway.adapter import MessageEvent, MessageFile
from hermes.tools.files.checkpoints.states import FileState, write_state

log = logging.getLogger("hermes.gateway")

#: The folder below the workspace.
FOLDER = "attachments"
#: Files of one message.
MAX_FILES = 10
#: Where a message says which of its files were not stored, and why.
NOT_STORED = "files_not_stored"
_READ_SECONDS = 120.0
_MAX_NAME_BYTES = 150

_Blocking = Callable[..., Awaitable[Any]]


async def store_files(event: MessageEvent, workspace: Path, config: GatewayConfig, blocking: _Blocking) -> None:
    """Store the files of a message; their paths are then its media. What cannot be stored is noted in the message.

    The same delivery twice has the same paths.
    """
    files, event.files = [*_local_files(event, workspace), *event.files], []
    delivery = f"{event.source and event.source.chat_id} {event.message_id or new_id()}"
    folder = workspace / FOLDER / hashlib.sha256(delivery.encode()).hexdigest()[:12]
    names: set[str] = set()
    notes: list[str] = []
    for number, file in enumerate(files, 1):
        name = safe_name(file.name)
        name = name if name not in names else f"{number}-{name}"
        names.add(name)
        try:
            if number > MAX_FILES:
                raise _Refused(f"a message may have {MAX_FILES} files")
            data = await _content(file, config)
            await blocking(_store, folder / name, data, workspace / FOLDER, config.max_attachments_bytes)
        except _Refused as reason:
            notes.append(f"{name}: {reason}")
        except Exception as error:  # an adapter's own code, the network, the disk
            log.warning("a file of a message could not be stored: %s: %s", type(error).__name__, error)
            notes.append(f"{name}: it could not be fetched or written")
        else:
            event.media_urls.append(str(folder / name))
            event.media_types.append(file.media_type)
    if notes:
        event.metadata[NOT_STORED] = notes


class _Refused(Exception):
    """A file is not stored, for a reason that its sender may know."""


async def _content(file: MessageFile, config: GatewayConfig) -> bytes:
    limit = config.max_attachment_bytes
    too_long = f"it is too long; {limit:,} bytes are allowed" if limit else "files are not accepted here"
    if file.size > limit or not limit:
        raise _Refused(too_long)
    async with asyncio.timeout(_READ_SECONDS):
        data = await file.read(limit)
    if len(data) > limit:
        raise _Refused(too_long)
    return data


def _store(path: Path, data: bytes, folder: Path, most: int) -> None:
    """Write a file. The user's own tools may have put links anywhere below the workspace: none is followed."""
    used = sum(path.lstat().st_size for path in folder.rglob("*"))
    if used + len(data) > most:
        raise _Refused(f"the folder {FOLDER} is full ({most:,} bytes); delete what is not needed any more")
    write_state(str(path), FileState("file", 0o600), data)


def _local_files(event: MessageEvent, workspace: Path) -> list[MessageFile]:
    """The files that an adapter has stored elsewhere on this machine. They are copied; what is no file stays."""
    found: list[MessageFile] = []
    kept: list[tuple[str, str]] = []
    for number, place in enumerate(event.media_urls):
        media_type = event.media_types[number] if number < len(event.media_types) else ""
        path = Path(place)
        if path.is_file() and not path.is_relative_to(workspace):
            found.append(MessageFile(path.name, media_type, path.stat().st_size, _reader(path)))
        else:
            kept.append((place, media_type))
    event.media_urls = [place for place, _ in kept]
    event.media_types = [media_type for _, media_type in kept]
    return found


def _reader(path: Path) -> Callable[[int], Awaitable[bytes]]:
    async def read(limit: int) -> bytes:
        def content() -> bytes:
            with path.open("rb") as file:
                return file.read(limit + 1)

        return await asyncio.to_thread(content)

    return read


def safe_name(name: str) -> str:
    """A file name without folders, characters that cannot be seen and marks of a hidden file, of moderate length."""
    visible = "".join("_" if unicodedata.category(one)[0] == "C" or one in '/\\:*?"<>|' else one for one in name)
    path = Path(visible.strip(" ._") or "file")
    end = path.suffix.encode()[:20].decode(errors="ignore")
    return path.stem.encode()[: _MAX_NAME_BYTES - len(end.encode())].decode(errors="ignore") + end
