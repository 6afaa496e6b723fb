"""Fuzzy line matching: finds lines in a file, tolerating white space differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_NEAREST_LINES = 20_000
_SHOWN_LINES = 8


@dataclass(frozen=True, slots=True)
class LineMatch:
    """A match of the wanted lines, and the indentation for new lines."""

    at: int
    indent: str = ""
    outdent: str = ""

    def fit(self, line: str) -> str:
        """``line`` with the indentation of the match."""
        if not line.strip():
            return line
        return self.indent + line.removeprefix(self.outdent)


def find_lines(lines: Sequence[str], wanted: Sequence[str], start: int = 0) -> tuple[list[LineMatch], str]:
    """All matches of ``wanted`` at or after ``start``, and the tolerated difference ("" for none)."""
    exact = [LineMatch(at) for at in _places(lines, wanted, start)]
    if exact:
        return exact, ""
    bare_lines, bare_wanted = [line.rstrip() for line in lines], [line.rstrip() for line in wanted]
    trailing = [LineMatch(at) for at in _places(bare_lines, bare_wanted, start)]
    if trailing:
        return trailing, "white space at line ends"
    shifted: list[LineMatch] = []
    for at in _places([line.strip() for line in lines], [line.strip() for line in wanted], start):
        match = _shift(at, bare_lines[at : at + len(wanted)], bare_wanted)
        if match:
            shifted.append(match)
    return shifted, "indentation" if shifted else ""


def _places(lines: Sequence[str], wanted: Sequence[str], start: int) -> list[int]:
    """Where ``wanted`` begins, without overlaps. The algorithm of Knuth, Morris and Pratt: no line is read twice."""
    if not wanted or not any(wanted):
        return []
    borders = _borders(wanted)
    found: list[int] = []
    matched = 0
    for at in range(start, len(lines)):
        line = lines[at]
        while matched and line != wanted[matched]:
            matched = borders[matched - 1]
        if matched or line == wanted[0]:
            matched += 1
        if matched == len(wanted):
            found.append(at + 1 - matched)
            matched = 0
    return found


def _borders(wanted: Sequence[str]) -> list[int]:
    """For each beginning of ``wanted``: how many of its last lines are its first lines too."""
    borders = [0]
    matched = 0
    for line in wanted[1:]:
        while matched and line != wanted[matched]:
            matched = borders[matched - 1]
        if line == wanted[matched]:
            matched += 1
        borders.append(matched)
    return borders


def _shift(at: int, lines: Sequence[str], wanted: Sequence[str]) -> LineMatch | None:
    """The difference in indentation, if it is the same on every line."""
    pairs = [(line, want) for line, want in zip(lines, wanted, strict=True) if want]
    first_line, first_wanted = pairs[0]
    deeper = len(first_line) - len(first_wanted)
    if deeper >= 0:
        indent = first_line[:deeper]
        return LineMatch(at, indent=indent) if all(line == indent + want for line, want in pairs) else None
    outdent = first_wanted[:-deeper]
    return LineMatch(at, outdent=outdent) if all(outdent + line == want for line, want in pairs) else None


def nearest_lines(lines: Sequence[str], wanted: Sequence[str]) -> str:
    """The most similar part of the file, numbered, or "" for none."""
    from difflib import SequenceMatcher

    first = next((line.strip() for line in wanted if line.strip()), "")
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(first[:300])
    best, best_at = 0.6, -1
    for at, line in enumerate(lines[:_NEAREST_LINES]):
        matcher.set_seq1(line.strip()[:300])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (score := matcher.ratio()) > best:
            best, best_at = score, at
    if best_at < 0:
        return ""
    end = best_at + min(len(wanted), _SHOWN_LINES)
    shown = enumerate(lines[best_at:end], best_at + 1)
    return "\n".join(f"{number:6}|{line[:300]}" for number, line in shown)
