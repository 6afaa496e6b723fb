"""Routes of the webhook platform: their settings, which events they take, and the prompt made from a payload."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from hermes.gateway.adapter import mark_untrusted
from hermes.gateway.platforms.settings import PlatformSettings

from .signatures import SCHEMES, standard_key

DEFAULT_PROMPT = "A webhook arrived at the route {route}. Its payload:\n\n{payload}"
#: A value of a payload in a prompt is at most this long.
_MAX_VALUE = 20_000
#: A value up to this length is inserted without marks, such as a name or a title.
_FEW_WORDS = 120
_FIELD = re.compile(r"\{([A-Za-z_][\w.\-]*)\}")
_KNOWN = {"events", "scheme", "secret_env", "prompt", "deliver", "deliver_only", "per_minute", "session"}


@dataclass(frozen=True)
class WebhookRoute:
    """One path, ``/webhooks/<name>``."""

    name: str
    secret: str = field(repr=False)
    scheme: str = "standard"
    #: Kinds of events to take; empty takes all.
    events: tuple[str, ...] = ()
    prompt: str = DEFAULT_PROMPT
    #: ``log``, or ``platform:chat`` where the answer goes.
    deliver: str = "log"
    #: The prompt itself is delivered; no model is asked.
    deliver_only: bool = False
    per_minute: int = 30
    #: ``delivery``: each one is a conversation of its own. ``route``: all of a route are one.
    session: str = "delivery"

    @property
    def target(self) -> tuple[str, str] | None:
        """The platform and the chat that answers go to."""
        platform, _, chat = self.deliver.partition(":")
        return (platform, chat) if chat else None


@dataclass(frozen=True)
class WebhookSettings:
    """Where to listen, and the routes."""

    host: str
    port: int
    max_body: int
    routes: dict[str, WebhookRoute]


def read_settings(block: Mapping[str, Any] | None, env: Mapping[str, str] | None = None) -> WebhookSettings:
    """The settings, checked. Raises ``ConfigError``."""
    given = PlatformSettings("webhook", block, env)
    routes = {name: _read_route(name, fields, given) for name, fields in given.mapping("routes").items()}
    if not routes:
        raise given.error("routes", "is empty; name at least one route, such as routes: {build: {prompt: …}}")
    return WebhookSettings(
        host=given.text("host", "127.0.0.1"),
        port=int(given.number("port", 8644, 0, 65535)),
        max_body=int(given.number("max_body", 1_000_000, 1_000, 25_000_000)),
        routes=routes,
    )


def _read_route(name: str, fields: object, given: PlatformSettings) -> WebhookRoute:
    key = f"routes.{name}"
    if not re.fullmatch(r"[A-Za-z0-9][\w\-]{0,63}", name):
        raise given.error(key, "has a name that cannot be part of an address; use letters, digits, - and _")
    block = cast("dict[str, Any]", fields if isinstance(fields, dict) else {})
    if unknown := sorted(set(block) - _KNOWN):
        raise given.error(key, f"has the unknown setting {unknown[0]!r}; allowed are {', '.join(sorted(_KNOWN))}")
    own = PlatformSettings(f"webhook_{name}", block, {})
    variable = own.text("secret_env", "WEBHOOK_SECRET_" + name.replace("-", "_").upper())
    secret = given.environment(variable)
    if len(secret) < 16:
        what = "is too short; 16 characters are the least" if secret else "is not set"
        raise given.error(key, f"needs a secret, and the variable {variable} {what} (hermes config set {variable})")
    route = WebhookRoute(
        name=name,
        secret=secret,
        scheme=own.choice("scheme", *SCHEMES),
        events=own.names("events"),
        prompt=str(block.get("prompt") or DEFAULT_PROMPT),
        deliver=own.text("deliver", "log"),
        deliver_only=own.flag("deliver_only"),
        per_minute=int(own.number("per_minute", 30, 1, 100_000)),
        session=own.choice("session", "delivery", "route"),
    )
    if route.target is None and route.deliver != "log":
        raise given.error(f"{key}.deliver", f"is {route.deliver!r}; it must be log, or platform:chat such as irc:#room")
    if route.deliver_only and route.target is None:
        raise given.error(f"{key}.deliver_only", "needs a chat in deliver")
    if route.scheme == "standard":
        try:
            standard_key(secret)
        except ValueError as error:
            raise given.error(key, f"has a secret in {variable} that is not usable: {error}") from None
    return route


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
