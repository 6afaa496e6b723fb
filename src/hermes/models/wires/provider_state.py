"""Opaque provider state: reasoning blocks and signatures that a provider wants back with the next request.

They are stored with the assistant message and sent only to the model that wrote them. The text of the reasoning is
stored too, for providers that want it back from whichever model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from hermes.models.endpoint import Endpoint
from hermes.models.reply import text_of

#: The key in an assistant message. Journals hold it, so it keeps its name.
STATE_FIELD = "carry"

Items = list[dict[str, Any]]


def provider_state(endpoint: Endpoint, items: Items) -> dict[str, Any] | None:
    """The items with the model they belong to; ``None`` when there are none."""
    if not items:
        return None
    return {"api_mode": endpoint.api_mode, "provider": endpoint.provider, "model": endpoint.model, "items": items}


def state_items(endpoint: Endpoint, message: Mapping[str, Any]) -> Items:
    """The items of a message that came from this very model. Another model cannot read them, or must not."""
    state: Any = message.get(STATE_FIELD)
    if not isinstance(state, dict):
        return []
    fields = cast("dict[str, Any]", state)
    origin = (fields.get("api_mode"), fields.get("provider"), fields.get("model"))
    if origin != (endpoint.api_mode, endpoint.provider, endpoint.model):
        return []
    items: Any = fields.get("items")
    return cast("Items", items) if isinstance(items, list) else []


def with_reasoning(state: dict[str, Any] | None, reasoning: str) -> dict[str, Any] | None:
    """Provider state that also has the reasoning as text, which every model of a provider that wants it can read."""
    return {**(state or {}), "reasoning": reasoning} if reasoning else state


def state_reasoning(message: Mapping[str, Any]) -> str:
    """The reasoning that led to a message; empty when it is not known."""
    state: Any = message.get(STATE_FIELD)
    fields = cast("dict[str, Any]", state) if isinstance(state, dict) else {}
    found = [fields, *fields.get("items", ())]  # older journals have it among the items
    texts = (one.get("reasoning") or one.get("reasoning_content") for one in found)
    return next((text for text in texts if isinstance(text, str) and text), "")


def restored(
    endpoint: Endpoint,
    message: Mapping[str, Any],
    *,
    said: Callable[[str, object], dict[str, Any]],
    called: Callable[[dict[str, Any]], dict[str, Any]],
) -> Items:
    """An assistant message as the items it came as; where that is not known, what the provider wants back comes first.

    ``said`` writes text, with the phase that a marker names, and ``called`` a tool call in the format of the wire.
    """
    text, calls = text_of(message.get("content")), message.get("tool_calls") or ()
    ids = [str(call.get("id") or "") for call in calls]
    items = state_items(endpoint, message)
    if not _markers_match(items, text, ids):
        items = [*(item for item in items if not is_marker(item)), text_marker(text), *map(call_marker, ids)]
    made: Items = []
    in_turn = map(called, calls)
    for item in items:
        if item.get("type") != "text":
            made.append(next(in_turn) if is_marker(item) else dict(item))
        elif (words := item.get("text", text)).strip():
            made.append(said(words, item.get("phase")))
    return made


def text_marker(text: str) -> dict[str, Any]:
    """An item that marks the position of a piece of the answer's text. Without its text it is that of all of it."""
    return {"type": "text", "text": text}


def call_marker(call_id: str) -> dict[str, Any]:
    """An item that marks the position of a tool call."""
    return {"type": "call", "id": call_id}


def _markers_match(items: Items, text: str, call_ids: Sequence[str]) -> bool:
    """Whether the markers describe this message. One that was edited since keeps the order of its parts only."""
    texts = [item.get("text", text) for item in items if item.get("type") == "text"]
    calls = [item.get("id") for item in items if item.get("type") == "call"]
    return "".join(texts) == text and calls == list(call_ids)


def is_marker(item: Mapping[str, Any]) -> bool:
    """Whether an item only marks a position."""
    return item.get("type") in ("text", "call")
