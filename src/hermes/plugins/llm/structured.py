"""Structured model calls: the request for instructions and inputs, and the answer parsed and checked as data."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import msgspec

from hermes.contract.llm import PluginLlmImageInput, PluginLlmTextInput

if TYPE_CHECKING:
    from hermes.plugins.llm.access import Input

log = logging.getLogger("agent.plugin_llm")

Message = dict[str, Any]

_JSON_ONLY = "Answer with JSON and nothing else: no words before or after it, no code fence."
_FORMAT_NAME = "plugin_structured_output"
#: Servers allow few characters in the name of a schema, and not many of them.
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_MAX_NAME_CHARS = 64
_FENCE = re.compile(r"```[ \t]*(?:json)?[ \t]*\r?\n?", re.IGNORECASE)
_MAX_PROBLEM_CHARS = 500


class StructuredQuestion(msgspec.Struct, frozen=True):
    """What a plugin asks for, checked: ``ValueError`` says what is wrong with it."""

    messages: list[Message]
    #: What to ask of servers that can be held to a format; ``None`` when no JSON is wanted.
    response_format: dict[str, Any] | None
    #: The schema as JSON, empty without one.
    schema: bytes = b""

    @classmethod
    def build(
        cls,
        instructions: object,
        blocks: object,
        *,
        json_schema: Mapping[str, Any] | None = None,
        json_mode: object = False,
        schema_name: object = None,
        system_prompt: object = None,
    ) -> StructuredQuestion:
        """The question for instructions and input blocks."""
        if not isinstance(instructions, str) or not instructions.strip():
            raise ValueError("instructions must say what is wanted; they are empty")
        for name, value in (("schema_name", schema_name), ("system_prompt", system_prompt)):
            if value and not isinstance(value, str):
                raise ValueError(f"{name} must be a string, got {type(value).__name__}")
        schema = encode_schema(json_schema)
        about = [instructions]
        if schema_name:
            about.append(f"Schema name: {schema_name}")
        if schema:
            about.append(f"JSON schema:\n{schema.decode()}")
        content = [_text_part("\n\n".join(about)), *_parts(blocks)]
        system = [str(system_prompt)] if system_prompt else []
        if schema or json_mode:
            system.append(_JSON_ONLY)
        messages: list[Message] = [{"role": "system", "content": "\n\n".join(system)}] if system else []
        messages.append({"role": "user", "content": content})
        return cls(messages, _response_format(schema, json_mode, schema_name), schema)

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> StructuredQuestion:
        """The question for the keyword arguments of ``complete_structured``."""
        about = {name: options.get(name) for name in ("json_schema", "json_mode", "schema_name", "system_prompt")}
        return cls.build(options.get("instructions"), options.get("input"), **about)

    def read(self, answer: str) -> tuple[Any, str]:
        """What the answer holds, and whether that is ``json`` or only ``text``. ``ValueError`` when it does not fit."""
        return (None, "text") if self.response_format is None else parse_answer(answer, self.schema)


# -- the question ---------------------------------------------------------------------------------------------------


def encode_schema(schema: object) -> bytes:
    """The schema as JSON, empty for None. ``ValueError`` when it is not a JSON schema."""
    if schema is None:
        return b""
    if not isinstance(schema, Mapping):
        raise ValueError(f"json_schema must be a JSON schema as a dictionary, got {type(schema).__name__}")
    try:
        encoded = msgspec.json.encode(dict(cast("Mapping[str, Any]", schema)), order="deterministic")
    except (TypeError, ValueError) as error:
        raise ValueError(f"json_schema cannot be written as JSON: {error}") from None
    _validator(encoded)
    return encoded


def _response_format(schema: bytes, json_mode: object, schema_name: object) -> dict[str, Any] | None:
    if schema:
        given = schema_name if isinstance(schema_name, str) else ""
        name = _NOT_IN_NAME.sub("_", given).strip("_")[:_MAX_NAME_CHARS] or _FORMAT_NAME
        wanted = {"name": name, "schema": msgspec.json.decode(schema), "strict": False}
        return {"type": "json_schema", "json_schema": wanted}
    return {"type": "json_object"} if json_mode else None


def _parts(blocks: object) -> list[Message]:
    if not isinstance(blocks, list | tuple):
        raise ValueError(f"input must be a list of text and image blocks, got {type(blocks).__name__}")
    if not blocks:
        raise ValueError("input is empty; give at least one text or image block")
    return [_content_part(block, f"input[{number}]") for number, block in enumerate(cast("Sequence[Input]", blocks))]


def _content_part(block: Input, location: str) -> Message:
    fields = _fields(block, location)
    kind = fields.get("type")
    if kind == "text":
        text = fields.get("text")
        if not isinstance(text, str):
            raise ValueError(f"{location} is a text block, so its 'text' must be a string, got {type(text).__name__}")
        return _text_part(text)
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": _address(fields, location)}}
    raise ValueError(f"{location} has type {kind!r}; allowed: 'text', 'image'")


def _fields(block: object, location: str) -> Mapping[str, Any]:
    if isinstance(block, Mapping):
        return cast("Mapping[str, Any]", block)
    if isinstance(block, PluginLlmTextInput | PluginLlmImageInput):
        return vars(block)
    raise ValueError(f"{location} must be a text or image block, got {type(block).__name__}")


def _address(fields: Mapping[str, Any], location: str) -> str:
    """Where an image is; bytes become an address that holds them."""
    url, data = fields.get("url"), fields.get("data")
    if url:
        if not isinstance(url, str):
            raise ValueError(f"{location} is an image block, so its 'url' must be a string, got {type(url).__name__}")
        return url
    if not data:
        raise ValueError(f"{location} is an image block without 'data' or 'url'")
    if not isinstance(data, bytes | bytearray):
        raise ValueError(f"{location} is an image block, so its 'data' must be bytes, got {type(data).__name__}")
    import base64

    kind = fields.get("mime_type") or "image/png"
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _text_part(text: str) -> Message:
    return {"type": "text", "text": text}


# -- the answer -----------------------------------------------------------------------------------------------------


def parse_answer(answer: str, schema: bytes) -> tuple[Any, str]:
    """The JSON in an answer and ``json``, or None and ``text``. ``ValueError`` when it does not fit the schema."""
    for candidate in _candidates(answer):
        try:
            found = msgspec.json.decode(candidate)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if schema:
            _check(found, schema)
        return found, "json"
    return None, "text"


def _candidates(answer: str) -> list[str]:
    """Where JSON may be in an answer: all of it, else inside a code fence. Strings in it may hold fences too."""
    answer = answer.strip()
    found = [answer] if answer else []
    fence = _FENCE.search(answer)
    if fence is not None:
        inside = answer[fence.end() :]
        found += [inside.partition("```")[0].strip(), inside.rpartition("```")[0].strip(), inside.strip()]
    return found


def _check(value: object, schema: bytes) -> None:
    validator = _validator(schema)
    if validator is None:
        return
    from referencing.exceptions import Unresolvable

    try:
        problem = next(validator.iter_errors(value), None)
    except Unresolvable as error:
        raise ValueError(f"json_schema refers to something that is not in it: {error}") from None
    except RecursionError:
        raise ValueError("the answer cannot be checked: it, or json_schema, goes too deep") from None
    if problem is not None:
        message = str(problem.message)
        message = message if len(message) <= _MAX_PROBLEM_CHARS else message[:_MAX_PROBLEM_CHARS] + "…"
        raise ValueError(f"the answer does not fit json_schema at {problem.json_path}: {message}")


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> Any:
    """The check for a schema; ``None`` where the library for it is missing. ``ValueError`` when it is no schema."""
    try:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
        from referencing import Registry
    except ImportError:
        log.debug("jsonschema is not installed: answers are not checked against the schema")
        return None
    decoded = msgspec.json.decode(schema)
    kind: Any = validator_for(decoded, default=Draft202012Validator)
    try:
        kind.check_schema(decoded)
    except SchemaError as error:
        raise ValueError(f"json_schema is not a JSON schema: {error.message} at {error.json_path}") from None
    # An empty registry: what a schema refers to is looked up in it alone, never fetched.
    empty: Any = Registry()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return kind(decoded, registry=empty)
