"""The search for lines: what it finds, and that the work grows with the lines, not with their square."""

from __future__ import annotations

import random

import pytest

from hermes.tools.files.line_match import find_lines

_LINES = 4_000


class _Counted(str):
    """A line that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        _Counted.comparisons += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        _Counted.comparisons += 1
        return str.__ne__(self, other)

    __hash__ = str.__hash__

    def rstrip(self, chars: str | None = None, /) -> _Counted:
        return _Counted(str.rstrip(self, chars))

    def strip(self, chars: str | None = None, /) -> _Counted:
        return _Counted(str.strip(self, chars))


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["x"] * _LINES, ["x"] * (_LINES // 2) + ["y"]),
        (["x"] * _LINES, ["x"] * (_LINES // 2)),
        (["x", "y"] * (_LINES // 2), ["x", "y"] * (_LINES // 4) + ["x", "x"]),
        (["  x"] * _LINES, ["x "] * (_LINES // 2) + ["y"]),
    ],
    ids=["no match", "match", "period", "indented"],
)
def test_equal_lines_are_not_compared_again_and_again(lines: list[str], wanted: list[str]) -> None:
    _Counted.comparisons = 0
    find_lines([*map(_Counted, lines)], [*map(_Counted, wanted)])
    # Three searches, each with at most two comparisons for a line of the file and two for a line of the text.
    assert 0 < _Counted.comparisons <= 3 * 2 * (len(lines) + len(wanted))


def test_the_places_are_those_of_the_plain_search() -> None:
    chance = random.Random(7)
    for _ in range(2_000):
        lines = chance.choices("ab", k=chance.randrange(12))
        wanted = chance.choices("ab", k=chance.randrange(1, 5))
        start = chance.randrange(4)
        expected: list[int] = []
        at = start
        while at + len(wanted) <= len(lines):
            is_here = lines[at : at + len(wanted)] == wanted
            expected += [at] if is_here else []
            at += len(wanted) if is_here else 1
        assert [match.at for match in find_lines(lines, wanted, start)[0]] == expected
