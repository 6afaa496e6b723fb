"""Lone surrogates: what invalid bytes of file names and output become in text, and what no UTF-8 can hold."""

from __future__ import annotations

import re
from typing import Any, cast

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")


def encodable(value: Any) -> Any:
    """A copy of plain data with U+FFFD for lone surrogates, and with the text of objects that JSON does not know."""
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {encodable(key): encodable(item) for key, item in items}
    if isinstance(value, (list, tuple)):
        return [encodable(item) for item in cast("list[Any]", value)]
    if isinstance(value, (int, float, type(None))):
        return value
    return _LONE_SURROGATES.sub("\ufffd", str(value))
