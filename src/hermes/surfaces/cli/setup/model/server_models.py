"""``GET /models``: the list of models of a server, cached in the home for ten minutes."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from hermes.base.config.files import write_atomically
from hermes.base.errors import ConfigError, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import ApiMode, Endpoint
from hermes.models.failures import malformed
from hermes.models.reply import Completion
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.choice import wire_for
from hermes.models.wires.document import DocumentParser, decoded
from hermes.models.wires.wire import HttpRequest

_LONGEST_LIST = 8 * 1024 * 1024
#: Longer lists are cut off.
_MOST_MODELS = 20_000
#: What a server without a list of models answers.
_NO_LIST = (404, 405, 501)
#: What follows the part of the address that all operations share.
_OPERATIONS: dict[ApiMode, str] = {
    "chat_completions": "/chat/completions",
    "anthropic_messages": "/messages",
    "codex_responses": "/responses",
}


def list_models(driver: Driver, endpoint: Endpoint, interrupt: Interrupt | None = None) -> list[str] | None:
    """The models of a server; ``None`` when it has no list. Raises ``ProviderError`` when it refuses."""
    try:
        return driver.send(endpoint, ModelList(), {}, interrupt=interrupt or Interrupt())["models"]
    except ProviderError as error:
        if error.status_code in _NO_LIST or error.reason == "malformed":
            return None
        raise


class ModelList(ChatCompletions):
    """The wire for ``GET /models``. It sends the headers that a question to a model has, the key among them."""

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The request as it goes out."""
        question = wire_for(endpoint).http_request(endpoint, kwargs)
        headers = [pair for pair in question.headers if pair[0] != "content-type"]
        parts = urlsplit(question.url)
        path = parts.path.removesuffix(_OPERATIONS[endpoint.api_mode]) + "/models"
        # The one format that hands out its list in pages.
        query = parts.query or ("limit=1000" if endpoint.api_mode == "anthropic_messages" else "")
        return HttpRequest("GET", urlunsplit((parts.scheme, parts.netloc, path, query, "")), headers, b"")

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> DocumentParser:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A parser for one list."""
        return DocumentParser(endpoint, partial(_models, endpoint), name="the list of models", longest=_LONGEST_LIST)


def _models(endpoint: Endpoint, body: bytes) -> Completion:
    """The names, as ``models``."""
    document = decoded(body)
    if isinstance(document, dict):
        fields = cast("dict[str, Any]", document)
        document = fields.get("data", fields.get("models"))
    if not isinstance(document, list):
        raise malformed(endpoint, "no list of models", body[:200])
    names: dict[str, None] = {}
    for entry in cast("list[Any]", document):
        if isinstance(entry, dict):
            fields = cast("dict[str, Any]", entry)
            entry = fields.get("id") or fields.get("name") or fields.get("model")
        if isinstance(entry, str) and entry:
            names[entry] = None
    return {"models": list(names)[:_MOST_MODELS]}


#: Seconds for which a list is believed.
LIFETIME = 600.0


class CachedList(msgspec.Struct):
    """The models of a server, and when it listed them."""

    at: float
    models: list[str]


class ModelListCache:
    """A file of lists by server and key. One that is damaged or cannot be written is as good as none."""

    def __init__(self, home: Path) -> None:
        self._path = home / "cache" / "models.json"

    def get(self, endpoint: Endpoint) -> list[str] | None:
        """The list of a server, if it is fresh."""
        found = self._fresh().get(_cache_key(endpoint))
        return None if found is None else found.models

    def keep(self, endpoint: Endpoint, models: list[str]) -> None:
        """Remember a list. Those that are out of date go."""
        lists = self._fresh()
        lists[_cache_key(endpoint)] = CachedList(time.time(), models)
        with contextlib.suppress(OSError, ConfigError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, msgspec.json.encode(lists).decode())

    def _fresh(self) -> dict[str, CachedList]:
        now = time.time()
        try:
            lists = msgspec.json.decode(self._path.read_bytes(), type=dict[str, CachedList])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return {key: one for key, one in lists.items() if 0 <= now - one.at < LIFETIME}


def _cache_key(endpoint: Endpoint) -> str:
    """Who is asked by whom, so that nothing can be read from it: accounts may see different models."""
    parts = (endpoint.base_url, endpoint.api_mode, endpoint.api_key, *sorted(endpoint.extra_headers.items()))
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
