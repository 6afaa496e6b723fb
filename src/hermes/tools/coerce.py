"""Tool arguments: parsed from the model's text, coerced to the types of the schema, and validated."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, isnan
from typing import Any, cast

import msgspec

from hermes.tools.registry import Args
from hermes.tools.results import encodable
from hermes.tools.schema import MAX_DEPTH, object_problem, plainly_fits, problem_with, required_names, shown, type_name


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
        if not isinstance(wanted, dict) or plainly_fits(item, cast("dict[str, Any]", wanted)):
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


def _to_boolean(value: Any) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower(), value)
    return value


def _to_string(value: Any) -> Any:
    return str(value) if type(value) in (int, float) else value


def _to_array(value: Any) -> Any:
    decoded = _from_json(value, "[")
    return cast("Any", decoded if isinstance(decoded, list) else [value])


def _to_object(value: Any) -> Any:
    decoded = _from_json(value, "{")
    return cast("Any", decoded if isinstance(decoded, dict) else value)


def _to_null(value: Any) -> Any:
    return None if value in ("null", "None", "") else value


def _from_json(value: Any, opening: str) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(opening):
        return None
    try:
        return _decode(value)
    except ValueError:
        return None


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "string": _to_string,
    "array": _to_array,
    "object": _to_object,
    "null": _to_null,
}
