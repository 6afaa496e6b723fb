"""Search with ripgrep, by the same rules as the Python engine."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
from collections.abc import Iterator

from hermes.tools.files.guard import FileGuard, is_key_file
from hermes.tools.search.query import FileHits, Query
from hermes.tools.search.walk import SKIPPED
from hermes.tools.terminal.child_process import ChildProcess

_READ_SECONDS = 0.25

#: Longer lines are cut by ripgrep (bounded output).
_MAX_COLUMNS = 65_536

_RULES = (
    "--no-config",
    "--no-messages",
    "--color=never",
    "--null",
    "--sort=path",
    "--no-ignore-dot",
    "--no-ignore-global",
    "--no-ignore-exclude",
    *(f"--glob=!{name}" for name in SKIPPED),
)
_TEXT = ("--no-mmap", "--crlf", "--with-filename", "--no-heading")

_BINARY_AFTER_ALL = b": WARNING: stopped searching binary file"


class RipgrepFailed(Exception):
    """ripgrep failed, on an unsupported pattern for example: use the Python engine."""


def rg_hits(rg: str, query: Query, guard: FileGuard) -> Iterator[FileHits]:
    """The files with matches, like ``walk_hits``. Raises RipgrepFailed before the first one, or not at all."""
    if query.counts_only:
        shape = ["--count"]
    else:
        columns = (f"--max-columns={_MAX_COLUMNS}", "--max-columns-preview")
        shape = ["--line-number", f"--context={query.context}", *columns]
    lines = _lines(query, [rg, *_RULES, *_TEXT, *shape, *_only(query), f"--regexp={query.pattern}", "--", "."])
    grouped = _counted(lines) if query.counts_only else _grouped(lines)
    for hits in grouped:
        # A file type that names a hidden file brings it back.
        hidden = "/." in f"/{hits.path}"
        wanted = query.wanted is None or query.wanted(hits.path)
        if not wanted or hidden:
            continue
        if guard.refusal(os.path.join(query.root, hits.path)) or is_key_file(hits.path):
            query.refused.append(hits.path)
        else:
            yield hits


def rg_files(rg: str, query: Query) -> Iterator[str]:
    """The relative paths of the files that are searched, like ``walk``."""
    for path in _lines(query, [rg, *_RULES, "--files", "--", "."], end=b"\0"):
        relative = _relative(path)
        if query.wanted is None or query.wanted(relative):
            yield relative


def _only(query: Query) -> list[str]:
    # As a file type, because a --glob would bring back files that are ignored or hidden.
    if query.file_glob and "/" not in query.file_glob:
        return [f"--type-add=wanted:{query.file_glob}", "--type=wanted"]
    return []


def _lines(query: Query, arguments: list[str], end: bytes = b"\n") -> Iterator[bytes]:
    try:
        child = ChildProcess(arguments, cwd=query.root, keep_stderr=False, supervisor=query.supervisor)
    except (OSError, ValueError) as error:
        raise RipgrepFailed(str(error)) from None
    silent = True
    pending = b""
    try:
        while (data := child.read(_READ_SECONDS)) != b"":
            query.check()
            if data is None:
                continue
            silent = False
            *complete, pending = (pending + data).split(end)
            yield from complete
        if silent and child.wait(5) not in (0, 1):
            raise RipgrepFailed(f"exit code {child.exit_code()}")
        if pending:
            yield pending
    finally:
        child.stop(grace=0)
        child.close()


def _counted(lines: Iterator[bytes]) -> Iterator[FileHits]:
    for line in lines:
        path, separator, count = line.partition(b"\0")
        if separator:
            yield FileHits(_relative(path), int(count))


def _grouped(lines: Iterator[bytes]) -> Iterator[FileHits]:
    hits: FileHits | None = None
    current = b""
    for line in lines:
        path, separator, rest = line.partition(b"\0")
        if not separator:
            if _BINARY_AFTER_ALL in line:
                hits, current = None, b""
            continue
        if hits is None or path != current:
            if hits:
                yield hits
            hits, current = FileHits(_relative(path)), path
        digits = len(rest) - len(rest.lstrip(b"0123456789"))
        text = rest[digits + 1 :].decode("utf-8", "replace")
        hits.add(int(rest[:digits] or 0), rest[digits : digits + 1] == b":", text)
    if hits:
        yield hits


def _relative(path: bytes) -> str:
    return os.fsdecode(path.removeprefix(b"./"))
