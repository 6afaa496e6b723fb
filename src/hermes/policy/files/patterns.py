"""Names of files in the lists: relative paths, where ``*`` is a part of a name and a last ``/`` means a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable


def pattern_of(names: Iterable[str]) -> str:
    """A regular expression for paths in lower case, to be used after a slash or at the start, and to the end."""
    return "|".join(map(_one, names))


def _one(name: str) -> str:
    text = re.escape(name.lower().rstrip("/")).replace(r"\*", "[^/]*")
    return text + r"(?:/.*)?" if name.endswith("/") else text
