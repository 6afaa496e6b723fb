"""What a provider wants back with the next request: kept with the answer, opaque to everybody else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from hermes.models.endpoint import Endpoint

#: Where it stands in an assistant message.
FIELD = "carry"

Items = list[dict[str, Any]]


def carry_of(endpoint: Endpoint, items: Items) -> dict[str, Any] | None:
    """The items with the address they are for; nothing when there are none."""
    if not items:
        return None
    return {"api_mode": endpoint.api_mode, "provider": endpoint.provider, "model": endpoint.model, "items": items}


def carried(endpoint: Endpoint, message: Mapping[str, Any]) -> Items:
    """The items of a message that came from this very model. Another one could not read them, or must not."""
    carry: Any = message.get(FIELD)
    if not isinstance(carry, dict):
        return []
    fields = cast("dict[str, Any]", carry)
    address = (fields.get("api_mode"), fields.get("provider"), fields.get("model"))
    if address != (endpoint.api_mode, endpoint.provider, endpoint.model):
        return []
    items: Any = fields.get("items")
    return cast("Items", items) if isinstance(items, list) else []


def text_place(text: str | None = None) -> dict[str, Any]:
    """An item that keeps the place of a piece of the answer's text; without a text, of all of it."""
    return {"type": "text"} if text is None else {"type": "text", "text": text}


def call_place(call_id: str) -> dict[str, Any]:
    """An item that keeps the place of a tool call."""
    return {"type": "call", "id": call_id}


def places_fit(items: Items, text: str, call_ids: Sequence[str]) -> bool:
    """Whether the places are those of the message: it may have been changed since, and then only its order is left."""
    texts = [item.get("text", text) for item in items if item.get("type") == "text"]
    calls = [item.get("id") for item in items if item.get("type") == "call"]
    return "".join(texts) == text and calls == list(call_ids)


def is_place(item: Mapping[str, Any]) -> bool:
    """Whether an item only keeps a place."""
    return item.get("type") in ("text", "call")
