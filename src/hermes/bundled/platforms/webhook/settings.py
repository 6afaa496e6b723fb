"""Settings of the webhook platform: where it listens, and its routes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from hermes.surfaces.gateway.platforms.settings import PlatformSettings, SettingsReader, whole_number

from .signatures import SCHEMES, standard_key

DEFAULT_PROMPT = "A webhook arrived at the route {route}. Its payload:\n\n{payload}"
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


def _read_routes(given: SettingsReader, name: str, _read: Mapping[str, Any]) -> dict[str, WebhookRoute]:
    routes = {route: _read_route(route, fields, given) for route, fields in given.mapping(name).items()}
    if not routes:
        raise given.error(name, "is empty; name at least one route, such as routes: {build: {prompt: …}}")
    return routes


def _read_route(name: str, fields: object, given: SettingsReader) -> WebhookRoute:
    key = f"routes.{name}"
    if not re.fullmatch(r"[A-Za-z0-9][\w\-]{0,63}", name):
        raise given.error(key, "has a name that cannot be part of an address; use letters, digits, - and _")
    block = cast("dict[str, Any]", fields if isinstance(fields, dict) else {})
    if unknown := sorted(set(block) - _KNOWN):
        raise given.error(key, f"has the unknown setting {unknown[0]!r}; allowed are {', '.join(sorted(_KNOWN))}")
    own = SettingsReader(f"webhook_{name}", block, {})
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


@dataclass(frozen=True)
class WebhookSettings(PlatformSettings):
    """Where to listen, and the routes."""

    platform = "webhook"

    routes: dict[str, WebhookRoute] = field(default_factory=dict[str, WebhookRoute], metadata={"read": _read_routes})
    host: str = "127.0.0.1"
    port: int = whole_number(8644, 0, 65535)
    max_body: int = whole_number(1_000_000, 1_000, 25_000_000)
