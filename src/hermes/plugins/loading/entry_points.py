"""Entry points: plugins of installed packages, from an index that is rebuilt only when the installation changes."""

from __future__ import annotations

import logging
import os
import sys
import time
import zlib
from pathlib import Path

import msgspec

from hermes.base.config.files import replace_file

log = logging.getLogger("hermes.plugins")

GROUP = "hermes_agent.plugins"
#: Memory providers that are packages: a class, an object or a module.
MEMORY_GROUP = "hermes_agent.memory_providers"

#: A folder changed more recently than this may change again without its time stamp moving.
_SETTLED_SECONDS = 2.0


class PluginEntryPoint(msgspec.Struct, frozen=True):
    """One entry point: a name, and the module or object that has ``register``."""

    name: str
    value: str
    package: str = ""
    version: str = ""
    summary: str = ""
    group: str = GROUP


class _Index(msgspec.Struct):
    stamp: list[tuple[str, int]]
    entries: list[PluginEntryPoint]


def installed_entry_points(home: Path) -> list[PluginEntryPoint]:
    """The entry points of every installed package, sorted by name."""
    # Asking the installation takes some 60 ms, reading the index well under one.
    stamp = _stamp()
    file = home / "cache" / f"entry-points-2-{zlib.crc32(sys.prefix.encode()):08x}.json"
    index = _read(file)
    if index is not None and index.stamp == stamp:
        return index.entries
    entries = _scan()
    newest = max((changed for _, changed in stamp), default=0)
    if time.time() - newest / 1e9 > _SETTLED_SECONDS:
        _write(file, _Index(stamp, entries))
    return entries


def _stamp() -> list[tuple[str, int]]:
    """The folders packages are installed in, with the time each was last changed."""
    stamp: list[tuple[str, int]] = []
    for entry in sys.path:
        folder = entry or os.getcwd()  # noqa: PTH109  (no Path object for each entry of a path that is read at start)
        try:
            stamp.append((folder, os.stat(folder).st_mtime_ns))  # noqa: PTH116
        except OSError:
            continue
    return stamp


def _scan() -> list[PluginEntryPoint]:
    from importlib import metadata

    found: list[PluginEntryPoint] = []
    points = metadata.entry_points()
    for point in (*points.select(group=GROUP), *points.select(group=MEMORY_GROUP)):
        package = point.dist
        if package is None:
            found.append(PluginEntryPoint(point.name, point.value, group=point.group))
            continue
        summary = str(package.metadata.json.get("summary", ""))
        found.append(PluginEntryPoint(point.name, point.value, package.name, package.version, summary, point.group))
    return sorted(found, key=lambda point: point.name)


def _read(file: Path) -> _Index | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Index)
    except (OSError, msgspec.DecodeError):
        return None


def _write(file: Path, index: _Index) -> None:
    try:
        # The home may not be there yet, and what it will hold is for its owner alone.
        file.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.parent.mkdir(exist_ok=True)
        replace_file(file, msgspec.json.encode(index))
    except OSError as error:
        log.debug("the index of entry points cannot be stored: %s", error)
