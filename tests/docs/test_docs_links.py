"""Links between the pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import DOCS, README, all_pages, anchors, links


@pytest.mark.parametrize("path", all_pages(), ids=lambda path: path.name)
def test_links_lead_to_a_page_and_a_heading(path: Path) -> None:
    broken: list[str] = []
    for target in links(path.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        page = (path.parent / name).resolve() if name else path
        if not page.is_file() or (anchor and anchor not in anchors(page.read_text())):
            broken.append(target)
    assert broken == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    assert [page.name for page in sorted(DOCS.glob("*.md")) if page not in _linked(README)] == []
    linked = {target for page in DOCS.glob("*.md") for target in _linked(page)}
    assert [page.name for page in sorted(DOCS.rglob("*.md")) if page not in linked and page.parent != DOCS] == []


def test_the_tests_that_pages_name_exist() -> None:
    named = {name for page in DOCS.rglob("*.md") for name in re.findall(r"`(tests/[\w/]+\.py)`", page.read_text())}
    assert len(named) > 5
    assert [name for name in sorted(named) if not (DOCS.parent / name).is_file()] == []


def _linked(page: Path) -> set[Path]:
    return {(page.parent / target.partition("#")[0]).resolve() for target in links(page.read_text())}


def test_a_broken_link_would_be_found() -> None:
    page = "# One `two`\n\nSee [this](#one-two), [that](#three) and ```not [code](x)```.\n"
    assert anchors(page) == {"one-two"}
    assert links(page)[:2] == ["#one-two", "#three"]
