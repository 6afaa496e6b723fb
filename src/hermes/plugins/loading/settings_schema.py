"""The ``config_schema`` of a manifest: the settings that a plugin has, with their types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from hermes.base.errors import did_you_mean

#: Type names that a schema may use, with the Python types and what a person calls them.
_TYPES: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "string": ((str,), "text"),
    "int": ((int,), "a whole number"),
    "integer": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "number": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "boolean": ((bool,), "true or false"),
    "list": ((list,), "a list"),
    "array": ((list,), "a list"),
    "dict": ((dict,), "a mapping"),
    "object": ((dict,), "a mapping"),
}
TYPES = tuple(_TYPES)

Fields = Mapping[str, Mapping[str, Any]]


def schema_fields(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of a schema by name. It lists them itself, or as the ``properties`` of a JSON schema."""
    properties: Any = schema.get("properties")
    if not isinstance(properties, dict):
        properties, required = schema, ()
    else:
        required = cast("list[str]", schema.get("required") or ())
    fields = {
        str(name): cast("dict[str, Any]", field)
        for name, field in cast("dict[str, Any]", properties).items()
        if isinstance(field, dict)
    }
    return {
        name: {**field, "required": field.get("required") is True or name in required} for name, field in fields.items()
    }


def own_settings(schema: Mapping[str, Any], entry: object) -> dict[str, Any]:
    """The settings of a plugin: the defaults of its schema, and what ``plugins.entries.<key>`` says instead.

    Settings are in ``settings`` there, or directly in the entry.
    """
    fields = schema_fields(schema)
    known = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    given: Any = known.get("settings")
    settings = {name: field["default"] for name, field in fields.items() if "default" in field}
    settings |= {name: known[name] for name in fields if name in known}
    return settings | cast("dict[str, Any]", given) if isinstance(given, dict) else settings


def settings_problem(key: str, schema: Mapping[str, Any], entry: object) -> str:
    """What is wrong with a plugin's settings; empty when nothing is."""
    fields, settings = schema_fields(schema), own_settings(schema, entry)
    if not fields:
        return ""
    place = f"plugins.entries.{key}.settings"
    for name, field in fields.items():
        if name not in settings:
            if field["required"]:
                what = _TYPES.get(str(field.get("type")), ((), "a value"))[1]
                return f"{place}.{name} is not set; {what} is expected ({field.get('description') or 'it is required'})"
            continue
        problem = _type_problem(field, settings[name])
        if problem:
            return f"{place}.{name} is {settings[name]!r}; {problem}"
    return ""


def unknown_settings(key: str, schema: Mapping[str, Any], entry: object) -> list[str]:
    """A line for each setting that the schema does not have."""
    fields = schema_fields(schema)
    unknown = [name for name in own_settings(schema, entry) if name not in fields] if fields else []
    return [f"plugins.entries.{key}.settings has no {name!r}{did_you_mean(name, fields)}" for name in unknown]


def _type_problem(field: Mapping[str, Any], value: object) -> str:
    types, what = _TYPES.get(str(field.get("type")), ((), ""))
    is_boolean = isinstance(value, bool)
    if types and (not isinstance(value, types) or (is_boolean and bool not in types)):
        return f"{what} is expected"
    allowed: Any = field.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return f"allowed: {', '.join(map(str, cast('list[object]', allowed)))}"
    return ""
