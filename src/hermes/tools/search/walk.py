"""Search in plain Python, for machines without ripgrep, by the same rules.

Left out are hidden files and directories, ``node_modules`` and ``__pycache__``, what ``.gitignore`` files name inside
a git repository, symbolic links met on the way, binary files (those with a NUL byte) and files the guard refuses.
"""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import codecs
import contextlib
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING

from hermes.tools.files.guard import FileGuard, is_key_file
from hermes.tools.search.globs import IgnoreFile, is_ignored, read_gitignore
from hermes.tools.search.query import FileHits, Query, python_pattern

if TYPE_CHECKING:
    from hermes.tools.registry import ToolContext

#: Directories of dependencies, always skipped.
SKIPPED = ("node_modules", "__pycache__")

_BLOCK = 1 << 20

#: Longest line that is kept.
_LONGEST_LINE = 16 << 20

#: ReDoS bound: a regular expression sees only this much of a line, because its time may grow quadratically.
_LINE_SEARCHED = 10_000

#: Lines from this length on may take long: the time limit is checked before each.
_LONG_LINE = 1_000

_LITERAL = re.compile(r"(?:[^\\.^$*+?{}\[\]|()]|\\[^\w\s])+")

_Rules = tuple[IgnoreFile, ...]


def walk(query: Query) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """The files to search below the root, with their relative paths, sorted by name."""
    in_repository, rules = _rules_above(query.root)
    stack = [_listing(query.root, "", rules, in_repository)]
    while stack:
        query.check()
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            continue
        path, entry, rules, in_repository = found
        if entry.is_dir(follow_symlinks=False):
            stack.append(_listing(entry.path, path + "/", rules, in_repository))
        elif entry.is_file(follow_symlinks=False) and (query.wanted is None or query.wanted(path)):
            yield path, entry


def walk_hits(query: Query, guard: FileGuard) -> Iterator[FileHits]:
    """The files with matches."""
    matcher = _Matcher(query)
    for path, entry in walk(query):
        try:
            if guard.refusal(entry.path, os.stat(entry.path)) or is_key_file(path):
                query.refused.append(path)
                continue
            with open(entry.path, "rb") as file:
                hits = _search_file(query, matcher, path, file)
        except OSError:
            continue
        if hits:
            yield hits


def file_hits(query: Query, context: ToolContext) -> Iterator[FileHits]:
    """The matches when the root is itself a file. Raises FileRefused."""
    with contextlib.suppress(OSError), context.open(query.root, "rb") as file:
        hits = _search_file(query, _Matcher(query), "", file)
        if hits:
            yield hits


def _listing(
    directory: str, prefix: str, rules: _Rules, in_repository: bool
) -> Iterator[tuple[str, os.DirEntry[str], _Rules, bool]]:
    """The entries of one directory to search, with its ignore rules."""
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: os.fsencode(entry.name))
    except OSError:  # unreadable or deleted; the rest is still searched
        return
    names = {entry.name for entry in entries}
    if ".git" in names:
        in_repository, rules = True, ()
    if in_repository and ".gitignore" in names:
        ignore = read_gitignore(directory, base=prefix)
        rules = (*rules, ignore) if ignore else rules
    for entry in entries:
        path = prefix + entry.name
        if entry.name.startswith(".") or entry.name in SKIPPED or entry.is_symlink():
            continue
        if not (rules and is_ignored(path, entry.is_dir(follow_symlinks=False), rules)):
            yield path, entry, rules, in_repository


def _rules_above(root: str) -> tuple[bool, _Rules]:
    """Whether the root lies in a git repository, and the ignore rules of the directories above it there."""
    rules: list[IgnoreFile] = []
    directory, above = os.path.realpath(root), ""
    while not os.path.lexists(os.path.join(directory, ".git")):
        parent, name = os.path.split(directory)
        if parent == directory:
            return False, ()
        directory, above = parent, f"{name}/{above}"
        ignore = read_gitignore(directory, above=above)
        if ignore:
            rules.append(ignore)
    return True, tuple(reversed(rules))


class _Matcher:
    """A compiled pattern. Plain text, the common case, is found without ``re``."""

    def __init__(self, query: Query) -> None:
        self._search = re.compile(python_pattern(query.pattern)).search
        self._text = re.sub(r"\\(.)", r"\1", query.pattern) if _LITERAL.fullmatch(query.pattern) else None

    def matches(self, line: str) -> bool:
        if self._text is not None:
            return self._text in line
        return self._search(line[:_LINE_SEARCHED]) is not None

    def rules_out(self, block: str) -> bool:
        """No line of the block can match."""
        return self._text is not None and self._text not in block


def _search_file(query: Query, matcher: _Matcher, path: str, file: IO[bytes]) -> FileHits | None:
    """The matches in one file; None for none, and for a binary file."""
    hits = FileHits(path)
    blocks = iter(lambda: file.read(_BLOCK), b"")
    complete = _search_text(query, matcher, _whole_lines(_as_utf8(blocks)), hits)
    return hits if complete and hits.count else None


def _search_text(query: Query, matcher: _Matcher, blocks: Iterable[bytes], hits: FileHits) -> bool:
    """Collect the matches; False when the file turns out to be binary."""
    number = 0
    earlier: deque[tuple[int, str]] = deque(maxlen=query.context)
    wanted_after = 0
    for block in blocks:
        query.check()
        if b"\0" in block:
            return False
        text = block.decode("utf-8", "replace").replace("\r\n", "\n")
        text = text[:-1] if text.endswith(("\n", "\r")) else text
        lines = text.split("\n")
        if wanted_after == 0 and matcher.rules_out(text):
            number += len(lines)
            last = lines[len(lines) - min(query.context, len(lines)) :]
            earlier.extend(enumerate(last, number - len(last) + 1))
            continue
        for number, line in enumerate(lines, number + 1):  # noqa: B020  (it counts on from block to block)
            if len(line) >= _LONG_LINE:
                query.check()
            if matcher.matches(line):
                for before, context_line in earlier:
                    hits.add(before, False, context_line)
                earlier.clear()
                hits.add(number, True, "" if query.counts_only else line)
                wanted_after = query.context
            elif wanted_after:
                wanted_after -= 1
                hits.add(number, False, line)
            elif query.context:
                earlier.append((number, line))
    return True


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut at line ends."""
    rest = b""
    for block in blocks:
        cut = block.rfind(b"\n") + 1
        if cut:
            yield rest + block[:cut]
            rest = block[cut:]
        elif len(rest) < _LONGEST_LINE:
            rest += block
    if rest:
        yield rest


def _as_utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(blocks, b"")
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        yield decoder.decode(first).encode("utf-8", "replace")
        for block in blocks:
            yield decoder.decode(block).encode("utf-8", "replace")
        return
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from blocks
