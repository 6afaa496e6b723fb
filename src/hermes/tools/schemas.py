"""The JSON schemas of arguments, written as briefly as they are sent."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def fields(required: list[str], **properties: Schema) -> Schema:
    """An object with these fields, such as the arguments of a tool."""
    return {"type": "object", "properties": properties, "required": required}


def text(description: str = "", **more: Any) -> Schema:
    """A string."""
    return {"type": "string", **({"description": description} if description else {}), **more}


def number(description: str = "", **more: Any) -> Schema:
    """A whole number."""
    return {"type": "integer", **({"description": description} if description else {}), **more}


def flag(description: str) -> Schema:
    """A yes or no."""
    return {"type": "boolean", "description": description}
