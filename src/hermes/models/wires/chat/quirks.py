"""Messages rewritten for chat servers that do not take them as they are."""

from __future__ import annotations

from typing import Any

from hermes.models.reply import text_of


def merged_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with one system message, at the front: the same list when they have no other."""
    system = [message for message in messages if message.get("role") in ("system", "developer")]
    if not system or (len(system) == 1 and messages[0] is system[0]):
        return messages
    text = "\n\n".join(filter(None, (text_of(message.get("content")) for message in system)))
    rest = [message for message in messages if message.get("role") not in ("system", "developer")]
    return [{"role": "system", "content": text}, *rest]


def short_ids(messages: list[dict[str, Any]], length: int) -> list[dict[str, Any]]:
    """The messages with tool call ids of exactly so many letters and digits, each made from the one it replaces."""
    return [_with_short_ids(message, length) for message in messages]


def _with_short_ids(message: dict[str, Any], length: int) -> dict[str, Any]:
    if message.get("role") == "tool":
        return {**message, "tool_call_id": short_id(str(message.get("tool_call_id") or ""), length)}
    if message.get("tool_calls"):
        calls = [{**call, "id": short_id(str(call.get("id") or ""), length)} for call in message["tool_calls"]]
        return {**message, "tool_calls": calls}
    return message


def short_id(call_id: str, length: int) -> str:
    """The id itself when it will do, else one that is always made from it in the same way."""
    if len(call_id) == length and call_id.isascii() and call_id.isalnum():
        return call_id
    import hashlib

    return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:length]
