"""Webhooks as messages: the kind of an event, and the prompt made from its payload."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from hermes.gateway.adapter import mark_untrusted

from .settings import WebhookRoute

#: A value of a payload in a prompt is at most this long.
_MAX_VALUE = 20_000
#: A value up to this length is inserted without marks, such as a name or a title.
_FEW_WORDS = 120
_FIELD = re.compile(r"\{([A-Za-z_][\w.\-]*)\}")


def event_of(headers: Mapping[str, str], payload: object) -> str:
    """The kind of an event, as GitHub, GitLab and others name it."""
    for name in ("x-github-event", "x-gitlab-event", "x-event-type"):
        if headers.get(name):
            return headers[name][:200]
    found: object = cast("dict[str, Any]", payload).get("type") if isinstance(payload, dict) else None
    return found[:200] if isinstance(found, str) else ""


def render(route: WebhookRoute, payload: object, event: str) -> str:
    """The prompt with its fields filled in: ``{a.b.0}`` is a value of the payload, ``{payload}`` all of it.

    What is not there becomes an empty text. A value is never read as a template, and for a model every value that is
    more than a few words is marked as untrusted text.
    """
    fixed = {"route": route.name, "event": event}

    def value(found: re.Match[str]) -> str:
        path = found[1]
        if path in fixed:
            return fixed[path]
        text = _as_text(payload if path == "payload" else _find(payload, path.split(".")))
        if route.deliver_only or (len(text) <= _FEW_WORDS and "\n" not in text):
            return text
        return mark_untrusted(text, f"{route.secret}:{text}")

    text = _FIELD.sub(value, route.prompt).strip()
    # A payload must not become a slash command.
    return f"({route.name}) {text}" if text.startswith("/") else text


def _find(value: object, path: list[str]) -> object:
    for part in path:
        if isinstance(value, dict):
            value = cast("dict[str, object]", value).get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(cast("list[object]", value)):
            value = cast("list[object]", value)[int(part)]
        else:
            return None
    return value


def _as_text(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return text if len(text) <= _MAX_VALUE else f"{text[:_MAX_VALUE]} … ({len(text):,} characters)"
