"""Arguments of tools: JSON schemas, short builders for them, and arguments parsed, coerced and validated by them."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, isnan
from typing import Any, cast

import msgspec

from hermes.base.sanitize.surrogates import encodable
from hermes.tools.registry import Args

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
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


def parse_arguments(raw: str | Args | None) -> Args:
    """The arguments of a call as a dict. Raises ValueError, with a message for the model, on anything else."""
    value: Any = _decode(raw) if isinstance(raw, str) else raw
    if isinstance(value, str):
        value = _decode(value)  # some models encode twice
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"tool arguments must be a JSON object, found {type_name(value)} {shown(value)}")
    return cast("Args", value)


def coerce_args(args: Args, parameters: dict[str, Any]) -> Args:
    """``args`` with values coerced to the types of the schema, where that is lossless.

    A value that already fits is left alone, and so is one that cannot be made to fit. When nothing changes
    the same dict comes back; the dict passed in is never modified.
    """
    return _coerce_object(args, parameters, 0)


def check_args(args: Args, parameters: dict[str, Any]) -> str | None:
    """Why ``args`` are invalid, as a message for the model, or None."""
    return object_problem(args, parameters, "", 0)


def bounded_int(args: Args, name: str, default: int, low: int, high: int) -> int:
    """An integer argument, within limits; the default when it is absent."""
    value = args.get(name)
    if not isinstance(value, (int, float)) or isnan(value):
        return default
    return int(max(low, min(value, high)))


def _decode(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        return _decode_leniently(text, error)


def _decode_leniently(text: str, first_error: BaseException) -> Any:
    """Accept raw line breaks and tabs inside strings, which small models often do not escape, and text that came twice:
    some servers send a whole call again at the end of its stream.
    """
    half, rest = text[: len(text) // 2], text[len(text) // 2 :]
    if half == rest and half.strip():
        return _decode(half)
    import json

    try:
        value = json.loads(text, strict=False, parse_constant=_finite, parse_float=_finite)
        return encodable(value)
    except (ValueError, RecursionError):
        raise ValueError(
            f"tool arguments are not valid JSON: {first_error}. Found: {shown(text)}. Send one JSON object."
        ) from None


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is not a number JSON can hold")
    return number


# ---- coercion


def _coerce_object(value: Args, schema: dict[str, Any], depth: int) -> Args:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return value
    changed: Args | None = None
    for name, item in value.items():
        wanted: Any = cast("dict[str, Any]", properties).get(name)
        if not isinstance(wanted, dict):
            continue
        wanted = cast("dict[str, Any]", wanted)
        kept = _coerce(item, wanted, depth + 1)
        if kept is None and item is None and problem_with(None, wanted, name, depth + 1):
            if name in required_names(schema):
                continue
            changed = changed if changed is not None else dict(value)
            del changed[name]  # null for an optional argument means that it was left out
        elif kept is not item:
            changed = changed if changed is not None else dict(value)
            changed[name] = kept
    return value if changed is None else changed


def _coerce(value: Any, schema: dict[str, Any], depth: int) -> Any:
    if value is None or depth > MAX_DEPTH or problem_with(value, schema, "", depth) is None:
        return value
    for alternative in _alternatives(schema):
        candidate = _as_type(value, alternative, depth)
        if candidate is not value and problem_with(candidate, schema, "", depth) is None:
            return candidate
    return _coerce_inside(value, schema, depth)


def _coerce_inside(value: Any, schema: dict[str, Any], depth: int) -> Any:
    """A list or an object of the right type, with its parts coerced."""
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        values = cast("list[Any]", value)
        items = [_coerce(item, schema["items"], depth + 1) for item in values]
        same = all(new is old for new, old in zip(items, values, strict=True))
        return cast("Any", values if same else items)
    if isinstance(value, dict):
        return _coerce_object(cast("Args", value), schema, depth)
    return cast("Any", value)


def _alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema as a list of schemas with one type each."""
    found: list[dict[str, Any]] = []
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list):
            found += [cast("dict[str, Any]", item) for item in cast("list[Any]", options) if isinstance(item, dict)]
    kinds = schema.get("type")
    names = cast("list[Any]", kinds) if isinstance(kinds, list) else [kinds]
    found.extend({**schema, "type": name} for name in names if isinstance(name, str))
    return found


def _as_type(value: Any, schema: dict[str, Any], depth: int) -> Any:
    kind = schema.get("type")
    convert = _CONVERSIONS.get(kind) if isinstance(kind, str) else None
    converted = convert(value) if convert else value
    return _coerce_inside(converted, schema, depth)


def _to_integer(value: Any) -> Any:
    if isinstance(value, str):
        value = _to_number(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _to_number(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > 400:
        return value
    try:
        number = msgspec.json.decode(value.strip().removeprefix("+"))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return value
    return number if type(number) in (int, float) else value


def _to_array(value: Any) -> Any:
    decoded = _from_json(value, "[")
    return cast("Any", decoded if isinstance(decoded, list) else [value])


def _to_object(value: Any) -> Any:
    decoded = _from_json(value, "{")
    return cast("Any", decoded if isinstance(decoded, dict) else value)


def _from_json(value: Any, opening: str) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(opening):
        return None
    try:
        return _decode(value)
    except ValueError:
        return None


_BOOLEANS = {"true": True, "false": False}
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": lambda value: _BOOLEANS.get(value.strip().lower(), value) if isinstance(value, str) else value,
    "string": lambda value: str(value) if type(value) in (int, float) else value,
    "array": _to_array,
    "object": _to_object,
    "null": lambda value: None if value in ("null", "None", "") else value,
}


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
        problem = problem_with(item, wanted, _at(where, name), depth + 1)
        if problem:
            return problem
    return None


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
