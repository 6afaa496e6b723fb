"""Required and allowed fields of a format's objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Fields = dict[str, Any]


class Shape(NamedTuple):
    """The fields of one kind of object."""

    required: tuple[str, ...]
    optional: tuple[str, ...]


def problems_of(found: Fields, shape: Shape, where: str) -> Iterator[str]:
    """Fields that are missing, null though required, or not part of the format."""
    for name in shape.required:
        if found.get(name) is None:
            yield f"{where}: {name} is missing"
    for name in found:
        if name not in shape.required and name not in shape.optional:
            yield f"{where}: {name!r} is no field of the format"
