"""Schemas of MCP tools, made fit for a request to a model: an object, without references."""

from __future__ import annotations

from typing import Any, cast

_MAX_DEPTH = 24
_DROPPED = frozenset({"$schema", "$defs", "definitions", "$id", "$comment"})

Schema = dict[str, Any]


def request_schema(schema: Schema) -> Schema:
    """The schema of a tool's arguments with its references resolved. What cannot be resolved accepts anything."""
    plain = _resolve(schema, schema, (), 0)
    fitting: Schema = cast("Schema", plain) if isinstance(plain, dict) else {}
    if fitting.get("type") != "object":
        fitting["type"] = "object"
    if not isinstance(fitting.get("properties"), dict):
        fitting["properties"] = {}
    return fitting


def _resolve(node: Any, root: Schema, seen: tuple[str, ...], depth: int) -> Any:
    if isinstance(node, list):
        return [_resolve(item, root, seen, depth + 1) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Schema", node)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = None if reference in seen else _target(root, reference)
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        if target is None or depth > _MAX_DEPTH:
            return {key: value for key, value in rest.items() if key == "description"}
        return _resolve({**target, **rest}, root, (*seen, reference), depth + 1)
    if depth > _MAX_DEPTH:
        return {}
    return {key: _resolve(value, root, seen, depth + 1) for key, value in schema.items() if key not in _DROPPED}


def _target(root: Schema, reference: str) -> Schema | None:
    """The definition that ``#/$defs/name`` refers to; None for anything else."""
    if not reference.startswith("#/"):
        return None
    node: Any = root
    for part in reference[2:].split("/"):
        node = cast("Schema", node).get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return cast("Schema", node) if isinstance(node, dict) else None
