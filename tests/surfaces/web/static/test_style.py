"""The style sheet of the page: rows of a timeline have their kind as a class, next to the classes of other parts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hermes.surfaces.web

STATIC = Path(hermes.surfaces.web.__file__).parent / "static"


@pytest.mark.parametrize("kind", ["turn", "model", "tool", "approval", "question", "child", "side", "mark"])
def test_no_rule_of_another_part_fits_the_rows_of_a_kind(kind: str) -> None:
    assert f"{kind}:" in (STATIC / "session" / "waterfall.js").read_text()
    rules = re.findall(r"[^{}]+(?={)", (STATIC / "style.css").read_text())
    selectors = [one.strip() for rule in rules for one in rule.split(",")]
    assert [one for one in selectors if re.match(rf"\.{kind}\b(?!-)", one)] == []
