"""Python types as JSON schemas, and data as values of these types: those that msgspec knows, and Pydantic's models."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, TypeGuard, cast

import msgspec

#: Types that a program may use for parameters of its tools and for structured output.
USABLE = (
    "str, int, float, bool, None, list, dict, tuple, Literal, enums, datetime, dataclasses, TypedDicts, "
    "msgspec Structs and Pydantic models"
)


class Model(Protocol):
    """A class like those of Pydantic."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]: ...
    @classmethod
    def model_validate(cls, obj: Any) -> Any: ...


def is_model(kind: Any) -> TypeGuard[type[Model]]:
    """Whether a type is one of Pydantic's models."""
    return hasattr(kind, "model_json_schema") and hasattr(kind, "model_validate")


def type_name(kind: Any) -> str:
    """The type as it is written in a program."""
    return inspect.formatannotation(kind)


def schema_hook(kind: Any) -> dict[str, Any]:
    """For msgspec: the schema of a type that it does not know."""
    if not is_model(kind):
        raise TypeError(f"there is no JSON schema for {type_name(kind)}")
    schema = kind.model_json_schema()
    definitions = {f"#/$defs/{name}": inner for name, inner in schema.pop("$defs", {}).items()}
    return inlined(schema, definitions)


def convert(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """Plain data as a value of that type. ``ValueError`` says why it does not fit."""
    return msgspec.convert(value, kind, strict=strict, dec_hook=_validated)


def to_json(value: Any) -> str:
    """``TypeError`` when the value cannot be written as JSON."""
    return msgspec.json.encode(value, enc_hook=_plain).decode()


def inlined(schema: Any, definitions: dict[str, Any], inside: tuple[str, ...] = ()) -> Any:
    """The schema with every reference replaced by what it refers to: many servers do not resolve references."""
    if isinstance(schema, list):
        return [inlined(item, definitions, inside) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    reference = fields.get("$ref")
    if isinstance(reference, str) and reference in definitions:
        if reference in inside:
            name = reference.rpartition("/")[2]
            raise TypeError(f"type {name} contains itself, which a tool's schema cannot")
        beside = {key: value for key, value in fields.items() if key != "$ref"}
        return {**inlined(definitions[reference], definitions, (*inside, reference)), **beside}
    return {key: inlined(value, definitions, inside) for key, value in fields.items()}


def _validated(kind: type, value: Any) -> Any:
    if not is_model(kind):
        raise TypeError(f"no value can be made a {type_name(kind)}")
    return kind.model_validate(value)


def _plain(value: Any) -> Any:
    if not is_model(type(value)):
        raise TypeError(f"there is no JSON for {type_name(type(value))}")
    return value.model_dump(mode="json")
