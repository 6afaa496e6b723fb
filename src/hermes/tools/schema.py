"""JSON schemas of tool parameters: short builders, and a validator for the part of the standard that tools use."""

from __future__ import annotations

from typing import Any, cast

#: Depth limit of the validation; deeper parts are left to the tool.
MAX_DEPTH = 16

_SHOWN = 60

#: JSON type -> Python types. Compared by ``type(value)``, not isinstance: a bool is not an integer here.
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_PLAIN: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def object_problem(value: dict[str, Any], schema: dict[str, Any], where: str, depth: int) -> str | None:
    """Why an object is invalid for a schema with properties, or None. ``where`` is its name."""
    found = schema.get("properties")
    properties = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    for name in required_names(schema):
        if value.get(name) is None and (name not in value or problem_with(None, properties.get(name), name, depth)):
            return f"{_at(where, name)} is required but missing; arguments: {_signature(schema, properties)}"
    closed = schema.get("additionalProperties") is False
    for name, item in value.items():
        wanted = properties.get(name)
        if wanted is None:
            if closed and name not in properties:
                return f"{_at(where, name)} is unknown; arguments: {_signature(schema, properties)}"
            continue
        if isinstance(wanted, dict) and plainly_fits(item, cast("dict[str, Any]", wanted)):
            continue
        problem = problem_with(item, wanted, _at(where, name), depth + 1)
        if problem:
            return problem
    return None


def plainly_fits(value: Any, schema: dict[str, Any]) -> bool:
    """Fast path: True for nearly every valid argument; False means unknown."""
    kind = schema.get("type")
    allowed = schema.get("enum")
    return (
        kind.__class__ is str
        and _PLAIN.get(cast("str", kind)) is value.__class__
        and (allowed is None or (isinstance(allowed, list) and value in allowed))
        and "anyOf" not in schema
        and "oneOf" not in schema
    )


def problem_with(value: Any, schema: Any, where: str, depth: int) -> str | None:
    """Why ``value`` is invalid for ``schema``, or None. Unknown keywords and broken schemas accept everything."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return None
    schema = cast("dict[str, Any]", schema)
    kinds = schema.get("type")
    if kinds is not None and not _has_type(value, kinds):
        return f"{where} must be {_type_words(kinds)}, found {type_name(value)} {shown(value)}"
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        choices = ", ".join(shown(choice) for choice in cast("list[Any]", allowed))
        return f"{where} must be one of {choices}; found {shown(value)}"
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list) and options:
            tried = [problem_with(value, option, where, depth + 1) for option in cast("list[Any]", options)]
            if all(tried):
                return " or ".join(dict.fromkeys(problem for problem in tried if problem))
    return _problem_inside(value, schema, where, depth)


def _problem_inside(value: Any, schema: dict[str, Any], where: str, depth: int) -> str | None:
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(cast("list[Any]", value)):
            problem = problem_with(item, schema["items"], f"{where}[{index}]", depth + 1)
            if problem:
                return problem
    if isinstance(value, dict) and ("properties" in schema or "required" in schema):
        return object_problem(cast("dict[str, Any]", value), schema, where, depth + 1)
    return None


def _has_type(value: Any, kinds: Any) -> bool:
    if isinstance(kinds, str):
        return kinds not in _TYPES or type(value) in _TYPES[kinds]
    if isinstance(kinds, list):
        return any(_has_type(value, kind) for kind in cast("list[Any]", kinds))
    return True


def required_names(schema: dict[str, Any]) -> list[str]:
    """The properties an object must have."""
    required = schema.get("required")
    if not isinstance(required, list):
        return []
    return [name for name in cast("list[Any]", required) if isinstance(name, str)]


# ---- text


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _type_words(kinds: Any) -> str:
    names = cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]
    return " or ".join(("an " if str(name)[:1] in "aio" else "a ") + str(name) for name in names)


def type_name(value: Any) -> str:
    """The JSON name of a value's type."""
    return "null" if value is None else _NAMES.get(cast("type[Any]", type(value)), type(value).__name__)


def _signature(schema: dict[str, Any], properties: dict[str, Any]) -> str:
    required = required_names(schema)
    return ", ".join(f"{name} (required)" if name in required else name for name in properties) or "none"


def shown(value: Any) -> str:
    """A value for a message, shortened."""
    if isinstance(value, (list, dict)):
        return f"of {len(cast('list[Any]', value))} items"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= _SHOWN else f'"{value[:_SHOWN]}…"'
    return repr(value)


Schema = dict[str, Any]


def fields(required: list[str], **properties: Schema) -> Schema:
    """An object with these fields, such as the arguments of a tool."""
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def text(description: str = "", **more: Any) -> Schema:
    """A string."""
    return {"type": "string", **({"description": description} if description else {}), **more}


def number(description: str = "", **more: Any) -> Schema:
    """A whole number."""
    return {"type": "integer", **({"description": description} if description else {}), **more}


def flag(description: str = "") -> Schema:
    """A boolean."""
    return {"type": "boolean", **({"description": description} if description else {})}
