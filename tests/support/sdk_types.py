"""What the official SDKs' own types say about a request or an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Protocol, cast

import msgspec
from pydantic import TypeAdapter

from hermes.models.endpoint import ApiMode, Endpoint
from hermes.models.wires.choice import wire_for
from hermes.models.wires.wire import Wire
from hermes.testing import ScriptedReply, raw

KEY = "sk-test-0123456789abcdef"


class Model(Protocol):
    """A pydantic model of an SDK."""

    def to_json(self, *, indent: int | None = 2) -> str: ...


def as_document(model: Model) -> ScriptedReply:
    """An answer that is this object."""
    return raw(model.to_json(indent=None).encode(), content_type="application/json")


def as_stream(events: Iterable[Model], *, last: bytes = b"") -> ScriptedReply:
    """An answer that is these events, each named after its type where it has one."""
    return raw([*map(_event, events), *([last] if last else [])])


def _event(model: Model) -> bytes:
    data = model.to_json(indent=None)
    kind = getattr(model, "type", None)
    return (f"event: {kind}\n" if kind else "").encode() + f"data: {data}\n\n".encode()


def endpoint_at(base_url: str, api_mode: ApiMode, model: str) -> tuple[Endpoint, Wire]:
    """A server as we see it."""
    endpoint = Endpoint(base_url, model, "demo", KEY, api_mode)
    return endpoint, wire_for(endpoint)


def refuse_what_the_sdk_does_not_know(params: type[Any], body: bytes) -> None:
    """Fail unless a request body has the fields of the SDK's parameters, all the way down, and no others."""
    sent = msgspec.json.decode(body)
    assert _plain(_adapter(params).validate_python(sent)) == sent


@cache
def _adapter(params: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(params)


def _plain(value: Any) -> Any:
    """Validated data with its lazy parts read, which is when pydantic checks them."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | Iterator):
        return [_plain(item) for item in cast("Iterable[Any]", value)]
    return value
