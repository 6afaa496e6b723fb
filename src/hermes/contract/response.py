"""The response object plugins and the loop see: plain attributes, the same on every provider's wire."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast


class Record:
    """A mutable bag of attributes made from a dictionary; nested dictionaries become records too.

    It reads like the objects of the provider SDKs (``response.choices[0].message.content``) and like a
    dictionary (``response["choices"]``, ``response.get("usage")``), and ``model_dump()`` gives it back as
    plain data.
    """

    def __init__(self, fields: dict[str, Any] | None = None, /, **more: Any) -> None:
        attributes = self.__dict__
        if fields:
            for name, value in fields.items():
                attributes[name] = from_plain(value)
        for name, value in more.items():
            attributes[name] = from_plain(value)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def get(self, name: str, default: Any = None) -> Any:
        """The named field, or ``default`` when there is none."""
        return self.__dict__.get(name, default)

    def model_dump(self, *, exclude_none: bool = False, **_: Any) -> dict[str, Any]:
        """The record as plain dictionaries and lists. Other keywords of the SDKs' method are accepted."""
        return cast("dict[str, Any]", _dump(self, exclude_none))

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.__dict__[name] = value

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return self.__dict__ == other.__dict__
        if isinstance(other, dict):
            return to_plain(self) == other
        return NotImplemented

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"Record({fields})"


# Most values of an answer are one of these, and they are looked at many times.
_SCALARS = frozenset((str, int, float, bool, type(None)))
_NUMBERS_AND_TEXT = (str, int, float)
_SEQUENCES = (list, tuple)
#: What a message of the chat shape may carry; absent ones read as ``None``.
_MESSAGE_FIELDS = ("content", "tool_calls", "reasoning", "reasoning_content", "refusal")


def chat_response(body: dict[str, Any]) -> Record:
    """A chat completion as a record in which every optional field exists, as ``None`` when it was absent."""
    response = Record(body)
    for name in ("id", "model", "usage"):
        response.__dict__.setdefault(name, None)
    choices = response.__dict__.get("choices")
    for choice in cast("list[Any]", choices) if isinstance(choices, list) else ():
        if not isinstance(choice, Record):
            continue
        choice.__dict__.setdefault("finish_reason", None)
        message = choice.__dict__.get("message")
        if isinstance(message, Record):
            message.__dict__.setdefault("role", "assistant")
            for name in _MESSAGE_FIELDS:
                message.__dict__.setdefault(name, None)
    return response


def from_plain(value: Any) -> Any:
    """Plain data with every dictionary turned into a record."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, dict):
        return Record(cast("dict[str, Any]", value))
    if isinstance(value, _SEQUENCES):
        return [from_plain(item) for item in cast("list[Any]", value)]
    return value


def to_plain(value: Any) -> Any:
    """Whatever a plugin hands back, as dictionaries, lists and scalars.

    Takes dictionaries, records, namespaces, dataclasses, msgspec structs and objects with ``model_dump``
    (pydantic models, SDK responses); anything else is returned as it is.
    """
    return _dump(value, False)


def _dump(value: Any, exclude_none: bool) -> Any:
    if type(value) in _SCALARS or isinstance(value, _NUMBERS_AND_TEXT):
        return value
    if isinstance(value, _SEQUENCES):
        return [_dump(item, exclude_none) for item in cast("list[Any]", value)]
    fields = _fields_of(value)
    if fields is None:
        return value
    return {
        str(name): _dump(item, exclude_none) for name, item in fields.items() if not (exclude_none and item is None)
    }


def _fields_of(value: Any) -> dict[Any, Any] | None:
    """The fields of a mapping-like object, or ``None`` when it is an opaque value."""
    if isinstance(value, dict):
        return cast("dict[Any, Any]", value)
    if isinstance(value, Record):
        return value.__dict__
    if isinstance(value, type):
        return None
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump()
        return cast("dict[Any, Any]", dumped) if isinstance(dumped, dict) else None
    # Dataclasses and msgspec structs both list their fields on the class; slots have no ``__dict__``.
    kind = cast("type[object]", type(value))
    names = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "__struct_fields__", None)
    if names is not None:
        return {name: getattr(value, name) for name in names}
    if issubclass(kind, SimpleNamespace):
        return cast("dict[Any, Any]", vars(value))
    return None
