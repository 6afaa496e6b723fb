"""What the rules say about a file that is written without a command."""

from __future__ import annotations

import os
from pathlib import Path

from hermes.policy.paths import Place
from hermes.policy.rules import BY_KEY
from hermes.policy.verdict import Finding


def judge_write(path: str, *, hermes_home: Path | str) -> Finding | None:
    """The rule that a change of the file with that absolute path falls under, if one does."""
    home = os.path.expanduser("~").rstrip("/") or "/"  # noqa: PTH111 - a home need not exist
    key = Place(cwd="/", home=home, hermes_home=str(hermes_home)).sensitive_kind(path)
    return None if key is None else Finding(key, BY_KEY[key].description, path)
