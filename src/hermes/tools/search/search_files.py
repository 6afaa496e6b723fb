"""The ``search_files`` tool: find text in files, or files by name."""

# Paths are strings here, because Path is slow.

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from hermes.base.programs import find_program, note_changeable
from hermes.tools.arguments import bounded_int
from hermes.tools.files.opening import FileRefused, readable
from hermes.tools.files.paths import display_path, similar_files, why
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result
from hermes.tools.search.globs import name_filter, path_filter
from hermes.tools.search.query import MAX_MATCHES, FileHits, Query, SearchStopped, python_pattern
from hermes.tools.search.ripgrep import RipgrepFailed, rg_files, rg_hits
from hermes.tools.search.walk import file_hits, walk, walk_hits

_Found = TypeVar("_Found")

_DEFAULT_LIMIT = 50
_MAX_LIMIT = 1_000
_MAX_CONTEXT = 20
_MAX_FILES = 100_000

#: From this many matches on the result is one text without repeated paths.
_DENSE_FROM = 5

_NOTHING = "hidden, git-ignored and binary files are not searched; give a file's own path to search it anyway"


_PROTECTED = "files that hold keys or records of this program are not searched"


def run_search_files(args: Args, context: ToolContext) -> str:
    """Search for ``pattern``; see the tool's schema."""
    pattern = args.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        return tool_error("pattern is empty; give a regular expression, or a file name with target=files")
    try:
        root, _ = readable(args.get("path") or ".", context)
    except ValueError as error:
        return tool_error(str(error))
    except FileNotFoundError as error:
        return tool_error(f"Path not found: {error.filename}", similar_files=similar_files(error.filename))
    except OSError as error:
        return tool_error(f"{error.filename} cannot be searched: {why(error)}")
    search = _Search(args, context, pattern, root)
    try:
        return search.files() if args.get("target") == "files" else search.content()
    except FileRefused as error:
        return tool_error(str(error))
    except re.error as error:
        where = f" at position {error.pos}" if error.pos is not None else ""
        return tool_error(f"pattern is not a valid regular expression{where}: {error.msg}. Found: {pattern[:200]!r}")


class _Search:
    """One search with pagination of its results."""

    def __init__(self, args: Args, context: ToolContext, pattern: str, root: str) -> None:
        self._args = args
        self._context = context
        self._pattern = pattern
        self._root = root
        #: Protected files that were left out.
        self._refused: list[str] = []
        self._offset = bounded_int(args, "offset", 0, 0, 1 << 31)
        self._limit = bounded_int(args, "limit", _DEFAULT_LIMIT, 1, _MAX_LIMIT)
        note_changeable([str(context.cwd)])
        self._rg = find_program("rg", system_first=True) if os.path.isdir(root) else None

    def files(self) -> str:
        """Files whose name matches the pattern."""
        query = self._query(wanted=name_filter(self._pattern))
        found, stopped = _until_stopped(self._file_names(query), _MAX_FILES)
        return self._page("files", [self._shown(path) for path in found], len(found), stopped)

    def content(self) -> str:
        """Matching lines, or files with matches, or counts."""
        mode = self._args.get("output_mode") or "content"
        glob = str(self._args.get("file_glob") or "") or None
        context = bounded_int(self._args, "context", 0, 0, _MAX_CONTEXT) if mode == "content" else 0
        wanted = path_filter(glob) if glob else None
        query = self._query(wanted=wanted, file_glob=glob, context=context, counts_only=mode != "content")
        re.compile(python_pattern(self._pattern))  # the same error with both engines
        if mode == "content":
            return self._lines(query)
        found, stopped = _until_stopped(self._hits(query), _MAX_FILES)
        if mode == "files_only":
            return self._page("files", [self._shown(hits.path) for hits in found], len(found), stopped)
        counts = [(self._shown(hits.path), hits.count) for hits in found]
        return self._page("counts", counts, sum(count for _, count in counts), stopped)

    def _query(self, **options: Any) -> Query:
        supervisor, interrupt = self._context.processes.supervisor, self._context.scope.interrupt
        return Query(self._pattern, self._root, interrupt, refused=self._refused, supervisor=supervisor, **options)

    def _lines(self, query: Query) -> str:
        matches: list[dict[str, Any]] = []
        total, stopped = 0, ""
        try:
            for hits in self._hits(query):
                self._take(hits, total, query.context, matches)
                total += hits.count
                if total > MAX_MATCHES:
                    raise SearchStopped(f"the search was stopped after more than {MAX_MATCHES} matches")
        except SearchStopped as error:
            stopped = str(error)
        return self._matches_page(matches, total, stopped)

    def _take(self, hits: FileHits, before: int, context: int, matches: list[dict[str, Any]]) -> None:
        """Add the lines of one file that are on the requested page; ``before`` matches came earlier."""
        path = self._shown(hits.path)
        positions = [number for number, is_match, _ in hits.lines if is_match]
        start = max(self._offset - before, 0)
        chosen = set(positions[start : max(self._offset + self._limit - before, 0)])
        if not chosen:
            return
        near = {number + step for number in chosen for step in range(-context, context + 1)}
        for number, _, text in hits.lines:
            if number in near:
                extra = {} if number in chosen else {"context": True}
                matches.append({"path": path, "line": number, "content": text, **extra})

    def _matches_page(self, matches: list[dict[str, Any]], total: int, stopped: str) -> str:
        shown = _fitting(matches, self._context.limits.max_read_chars)
        count = sum("context" not in match for match in shown)
        notes = self._notes(count, total, stopped or ("the answer was too long" if len(shown) < len(matches) else ""))
        if len(shown) < _DENSE_FROM:
            return tool_result(total_count=total, matches=shown, **notes)
        return tool_result(
            total_count=total,
            matches_format="a path on its own line, then its lines as 'number:match' or 'number-context'",
            matches_text=_dense(shown),
            **notes,
        )

    def _page(self, key: str, found: list[Any], total: int, stopped: str) -> str:
        page = found[self._offset : self._offset + self._limit]
        notes = self._notes(len(page), len(found), stopped)
        return tool_result(total_count=total, **{key: dict(page) if key == "counts" else page}, **notes)

    def _notes(self, shown: int, total: int, stopped: str) -> dict[str, Any]:
        """Note whether there is more, and how to get it: inside the JSON, so that the result always parses."""
        left_out = {"not_searched": [self._shown(path) for path in self._refused[:5]]} if self._refused else {}
        if total == 0 and not stopped:
            return {"hint": _PROTECTED if left_out else _NOTHING, **left_out}
        end = self._offset + shown
        if end >= total and not stopped:
            return {"hint": _PROTECTED, **left_out} if left_out else {}
        more = f"showing {self._offset + 1} to {end} of {total}; continue with offset={end} or narrow the search"
        return {"truncated": True, "hint": f"{stopped}; {more}" if stopped else more, **left_out}

    def _hits(self, query: Query) -> Iterator[FileHits]:
        guard = self._context.guard
        if not os.path.isdir(self._root):
            return file_hits(query, self._context)
        fast = rg_hits(self._rg, query, guard) if self._rg else None
        return _first_that_works(fast, walk_hits(query, guard))

    def _file_names(self, query: Query) -> Iterator[str]:
        if not os.path.isdir(self._root):
            name = os.path.basename(self._root)
            return iter([""] if query.wanted is None or query.wanted(name) else [])
        fast = rg_files(self._rg, query) if self._rg else None
        return _first_that_works(fast, (path for path, _ in walk(query)))

    def _shown(self, relative: str) -> str:
        full_path = os.path.join(self._root, relative) if relative else self._root
        return display_path(full_path, self._context.cwd)


def _first_that_works(fast: Iterator[_Found] | None, sure: Iterator[_Found]) -> Iterator[_Found]:
    if fast is not None:
        try:
            yield from fast
            return
        except RipgrepFailed:
            pass  # it fails before its first result, so there are no duplicates
    yield from sure


def _until_stopped(found: Iterator[_Found], most: int) -> tuple[list[_Found], str]:
    """The results, and why there may be more ("" when complete)."""
    results: list[_Found] = []
    try:
        for result in found:
            results.append(result)
            if len(results) == most:
                raise SearchStopped(f"the search was stopped after {most} files")
    except SearchStopped as error:
        return results, str(error)
    return results, ""


def _fitting(matches: list[dict[str, Any]], room: int) -> list[dict[str, Any]]:
    used = 0
    for count, match in enumerate(matches):
        used += len(match["content"]) + len(match["path"]) + 40
        if used > room:
            return matches[:count]
    return matches


def _dense(matches: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    with_context = any("context" in match for match in matches)
    path, last = None, 0
    for match in matches:
        if match["path"] != path:
            lines.append(match["path"])
        elif match["line"] > last + 1 and with_context:
            lines.append("--")
        path, last = match["path"], match["line"]
        lines.append(f"{last}{'-' if 'context' in match else ':'}{match['content']}")
    return "\n".join(lines)
