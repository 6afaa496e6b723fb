"""``GET /models``: the list of models of a server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from hermes.base.errors import ProviderError
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import ApiMode, Endpoint
from hermes.models.failures import malformed
from hermes.models.reply import Completion, Reply
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.choice import wire_for
from hermes.models.wires.wire import Delta, HttpRequest

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

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> ListParser:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A parser for one list."""
        return ListParser(endpoint)


class ListParser:
    """Collects a list of models, which is one document, and reads it when it has ended."""

    done = False

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._body = bytearray()

    def feed(self, data: bytes) -> Sequence[Delta]:
        """Take the next bytes."""
        self._body += data
        if len(self._body) > _LONGEST_LIST:
            raise malformed(self._endpoint, "the list of models does not end")
        return ()

    def finish(self) -> Completion:
        """The names, as ``models``."""
        try:
            document = msgspec.json.decode(self._body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            document = None
        if isinstance(document, dict):
            fields = cast("dict[str, Any]", document)
            document = fields.get("data", fields.get("models"))
        if not isinstance(document, list):
            raise malformed(self._endpoint, "no list of models", bytes(self._body[:200]))
        names: dict[str, None] = {}
        for entry in cast("list[Any]", document):
            if isinstance(entry, dict):
                fields = cast("dict[str, Any]", entry)
                entry = fields.get("id") or fields.get("name") or fields.get("model")
            if isinstance(entry, str) and entry:
                names[entry] = None
        return {"models": list(names)[:_MOST_MODELS]}

    def partial(self) -> Reply:
        """Nothing of it is of use to a conversation."""
        return Reply()


def cache_key(endpoint: Endpoint) -> str:
    """Who asks whom for a list, so that nothing can be read from it: accounts may see different models."""
    parts = (endpoint.base_url, endpoint.api_mode, endpoint.api_key, *sorted(endpoint.extra_headers.items()))
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
