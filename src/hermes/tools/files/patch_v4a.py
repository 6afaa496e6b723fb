"""Patches in the V4A format: read from text, and applied to the lines of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hermes.tools.files.line_match import LineMatch, find_lines, nearest_lines

_HEADER = re.compile(r"\*\*\* (Add|Update|Delete|Move) File: *(.+?) *$")
_MOVE_TO = re.compile(r"\*\*\* Move to: *(.+?) *$")
_ANCHOR = re.compile(r"@@(?: *-\d+(?:,\d+)? \+\d+(?:,\d+)? @@)? ?(.*)$")


class PatchError(ValueError):
    """The patch is invalid or does not apply; the message is for the model."""


@dataclass(slots=True)
class Hunk:
    """One hunk: ``" "`` keeps a line, ``"-"`` removes it, ``"+"`` adds one."""

    anchors: list[str] = field(default_factory=list[str])
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    at_end: bool = False

    def old(self) -> list[str]:
        """The lines that must be in the file."""
        return [text for sign, text in self.lines if sign != "+"]

    def new(self) -> list[str]:
        """The lines that are there afterwards."""
        return [text for sign, text in self.lines if sign != "-"]


@dataclass(slots=True)
class FilePatch:
    """The changes of one file."""

    action: Literal["add", "update", "delete"]
    path: str
    move_to: str | None = None
    content: str = ""
    hunks: list[Hunk] = field(default_factory=list[Hunk])


# ---- reading


def parse_patch(patch: str) -> list[FilePatch]:
    """The files a patch changes, in order. Raises PatchError."""
    files: list[FilePatch] = []
    for number, header, body in _sections(patch):
        match = _HEADER.match(header)
        if match is None:
            raise PatchError(f"line {number}: expected a line like '*** Update File: path', found {header[:80]!r}")
        files.append(_read_section(match[1], match[2], number, body))
    if not files:
        raise PatchError("the patch names no file; it needs lines like '*** Update File: path'")
    return files


def paths_in(patch: str) -> Iterator[str]:
    """Every path in a patch, even when it does not parse."""
    for line in patch.splitlines():
        match = _HEADER.match(line) or _MOVE_TO.match(line)
        if match:
            yield from match[match.lastindex or 1].split(" -> ")


def _sections(patch: str) -> Iterator[tuple[int, str, list[str]]]:
    """The patch cut before each file header: line number, header, lines below it."""
    lines = patch.replace("\r\n", "\n").split("\n")
    stripped = [line.strip() for line in lines]
    start = stripped.index("*** Begin Patch") + 1 if "*** Begin Patch" in stripped else 0
    end = stripped.index("*** End Patch", start) if "*** End Patch" in stripped[start:] else len(lines)
    while start < end and not stripped[start]:
        start += 1
    while start < end:
        stop = start + 1
        while stop < end and not _HEADER.match(lines[stop]):
            stop += 1
        body = lines[start + 1 : stop]
        while body and not body[-1].strip() and not body[-1].startswith(("+", "-")):
            body.pop()  # blank lines between sections belong to none
        yield start + 1, lines[start], body
        start = stop


def _read_section(action: str, path: str, number: int, body: list[str]) -> FilePatch:
    if action == "Move":
        source, arrow, target = path.partition(" -> ")
        if not arrow:
            raise PatchError(f"line {number}: a move is written '*** Move File: old -> new'")
        return FilePatch("update", source.strip(), move_to=target.strip())
    if action == "Delete":
        return FilePatch("delete", path)
    if action == "Add":
        return FilePatch("add", path, content=_added(number, body))
    patch = FilePatch("update", path)
    move = _MOVE_TO.match(body[0]) if body else None
    if move:
        patch.move_to = move[1]
    patch.hunks = _hunks(number + bool(move), body[bool(move) :])
    if not patch.hunks and not patch.move_to:
        raise PatchError(f"line {number}: the update of {path} changes nothing; add lines that start with - or +")
    return patch


def _added(number: int, body: list[str]) -> str:
    for at, line in enumerate(body, number + 1):
        if line and not line.startswith("+"):
            raise PatchError(f"line {at}: every line of an added file starts with +, found {line[:80]!r}")
    return "".join(line[1:] + "\n" for line in body)


def _hunks(number: int, body: list[str]) -> list[Hunk]:
    hunks: list[Hunk] = []
    hunk = Hunk()
    for at, line in enumerate([*body, "@@"], number + 1):
        if line.startswith("@@"):
            if hunk.lines:
                hunks.append(hunk)
                hunk = Hunk()
            anchor = _ANCHOR.match(line)
            if anchor and anchor[1].strip():
                hunk.anchors.append(anchor[1])
        elif line.strip() == "*** End of File":
            hunk.at_end = True
        elif line[:1] in ("", " ", "+", "-"):
            hunk.lines.append((line[:1] or " ", line[1:]))
        else:
            raise PatchError(f"line {at}: a line starts with a space, - or +, found {line[:80]!r}")
    return [hunk for hunk in hunks if any(sign != " " for sign, _ in hunk.lines)]


# ---- applying


def apply_hunks(text: str, hunks: Sequence[Hunk], name: str) -> tuple[str, list[str]]:
    """The text with every hunk applied, and the tolerated differences. Raises PatchError when one does not apply."""
    lines = text.split("\n")
    ends_with_break = lines[-1] == ""
    if ends_with_break:
        lines.pop()
    forgiven: list[str] = []
    position = 0
    for hunk in hunks:
        match, how = _locate(lines, hunk, position, name)
        if how:
            forgiven.append(how)
        changed = _changed(lines, hunk, match)
        lines[match.at : match.at + len(hunk.old())] = changed
        position = match.at + len(changed)
    return "\n".join(lines) + ("\n" if ends_with_break and lines else ""), forgiven


def _changed(lines: Sequence[str], hunk: Hunk, match: LineMatch) -> list[str]:
    """The new lines of a match. Kept lines come from the file, whose white space may differ."""
    changed: list[str] = []
    at = match.at
    for sign, text in hunk.lines:
        if sign == "+":
            changed.append(match.fit(text))
            continue
        if sign == " ":
            changed.append(lines[at])
        at += 1
    return changed


def _locate(lines: list[str], hunk: Hunk, position: int, name: str) -> tuple[LineMatch, str]:
    start = _after_anchors(lines, hunk.anchors, position, name)
    old = hunk.old()
    if not old:
        return LineMatch(start if hunk.anchors and not hunk.at_end else len(lines)), ""
    # The anchor itself may be repeated as the first kept line, and hunks may come out of order.
    for begin in (start, max(start - 1, 0), 0):
        matches, how = find_lines(lines, old, begin)
        if hunk.at_end:
            matches = [match for match in matches if match.at + len(old) == len(lines)] or matches
        if len(matches) > 1 and not (hunk.anchors and begin):
            places = ", ".join(str(match.at + 1) for match in matches[:5])
            raise PatchError(
                f"{name}: the lines to change stand at {len(matches)} places (lines {places}); "
                f"add more lines around them or an '@@ line above' anchor"
            )
        if matches:
            return matches[0], how
    raise PatchError(_not_found(lines, old, name))


def _after_anchors(lines: list[str], anchors: Sequence[str], position: int, name: str) -> int:
    for anchor in anchors:
        wanted = anchor.strip()
        order = [*range(position, len(lines)), *range(position)]
        found = next((at for at in order if lines[at].strip() == wanted), None)
        if found is None:
            found = next((at for at in order if wanted in lines[at]), None)
        if found is None:
            raise PatchError(f"{name}: no line reads {anchor!r}, which the patch uses as an anchor")
        position = found + 1
    return position


def _not_found(lines: Sequence[str], old: Sequence[str], name: str) -> str:
    near = nearest_lines(lines, old)
    shown = "\n".join(old[:8])
    message = f"{name}: these lines of the patch do not stand in the file:\n{shown}"
    return f"{message}\nNearest lines in the file:\n{near}" if near else message
