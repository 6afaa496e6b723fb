"""The list of models a server has: how it is asked for and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

from hermes.contract.response import Record
from hermes.errors import ProviderError
from hermes.models.driver import Driver
from hermes.models.endpoint import ApiMode, Endpoint
from hermes.models.failures import malformed
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.choice import wire_for
from hermes.models.wires.document import DocumentParser, decoded
from hermes.models.wires.wire import HttpRequest
from hermes.scope import Interrupt

_LONGEST_LIST = 8 * 1024 * 1024
#: No list is of use to anybody that has more names.
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
    """The models the server has; ``None`` when it does not tell. Raises ``ProviderError`` when it says no."""
    try:
        return driver.send(endpoint, ModelList(), {}, interrupt=interrupt or Interrupt()).models
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


def _models(endpoint: Endpoint, body: bytes) -> Record:
    """A record with the names as ``models``."""
    document = decoded(body)
    if isinstance(document, dict):
        fields = cast("dict[str, Any]", document)
        document = fields.get("data", fields.get("models"))
    if not isinstance(document, list):
        raise malformed(endpoint, "no list of models", body[:200])
    names = dict.fromkeys(_names(cast("list[Any]", document)))
    return Record(models=list(names)[:_MOST_MODELS])


def _names(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, dict):
            fields = cast("dict[str, Any]", entry)
            entry = fields.get("id") or fields.get("name") or fields.get("model")
        if isinstance(entry, str) and entry:
            yield entry
