"""The Markdown pages of the project, and the parts of them that can be checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_GENERATED = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- /generated -->)", re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
#: The first line of a block that is a file below the home, or a program in the working folder: its path, as a comment.
_FILE_NAME = re.compile(r"# ((?:(?:plugins|hooks)/[\w/.-]+|config\.yaml|\.env|\w+\.py))\n")


class Block(NamedTuple):
    """A fenced block."""

    language: str
    text: str
    line: int
    #: Where its text stands in the page.
    start: int
    end: int

    @property
    def file_name(self) -> str:
        """Which file it shows; empty when it shows none."""
        named = _FILE_NAME.match(self.text)
        return named[1] if named else ""

    @property
    def is_program(self) -> bool:
        """Whether the file belongs into the working folder and not into the home."""
        return self.file_name.endswith(".py") and "/" not in self.file_name

    def write_below(self, home: Path) -> Path:
        """Put the file it shows where a reader would."""
        path = home / self.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text.partition("\n")[2])
        return path


def all_pages() -> list[Path]:
    """The README, the list of changes and every page of the documentation."""
    return [README, ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for fence in _FENCE.finditer(page):
        line = page.count("\n", 0, fence.start(2)) + 1
        yield Block(fence[1], fence[2], line, *fence.span(2))


def generated_blocks(page: str) -> list[tuple[str, str]]:
    """Name and present text of each block that is made from the code."""
    return [(found[2], found[3]) for found in _GENERATED.finditer(page)]


def with_generated(page: str, make: Callable[[str, str], str]) -> str:
    """The page with the text of each generated block replaced by ``make(name, present text)``."""
    return _GENERATED.sub(lambda found: found[1] + make(found[2], found[3]) + found[4], page)


def links(page: str) -> list[str]:
    """The targets of the links outside of fenced blocks."""
    return _LINK.findall(_FENCE.sub("", page))


def anchors(page: str) -> set[str]:
    """What ``#…`` may say about a page: its headings as the usual renderers name them."""
    return {_slug(heading) for heading in _HEADING.findall(_FENCE.sub("", page))}


def _slug(heading: str) -> str:
    plain = re.sub(r"[`*]|\[|\]\([^)]*\)", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
