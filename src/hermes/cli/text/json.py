"""JSON for whoever reads the output with a program."""

from __future__ import annotations

import msgspec


def print_json(value: object) -> None:
    """Print one document, indented."""
    print(msgspec.json.format(msgspec.json.encode(value)).decode())
