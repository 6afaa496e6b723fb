"""The list of models a server has: how it is asked for and read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from hermes.contract.response import Record
from hermes.errors import ProviderError
from hermes.providers.chat_completions import ChatCompletions
from hermes.providers.endpoint import Endpoint
from hermes.providers.failures import malformed
from hermes.providers.reply import Reply
from hermes.providers.wire import Delta, HttpRequest

_LONGEST_LIST = 8 * 1024 * 1024


class ModelList(ChatCompletions):
    """The wire for ``GET /models``. It sends the headers of a chat, the key among them."""

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The request as it goes out."""
        headers = [pair for pair in super().http_request(endpoint, kwargs).headers if pair[0] != "content-type"]
        return HttpRequest("GET", endpoint.url("/models"), headers, b"")

    def parser(self, endpoint: Endpoint, *, streaming: bool, tools: bool = False) -> ModelListParser:  # pyright: ignore[reportIncompatibleMethodOverride]
        """A parser for one list."""
        return ModelListParser(endpoint)


class ModelListParser:
    """Collects the document and finds the names in it."""

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

    def finish(self) -> Record:
        """A record with the names as ``models``."""
        try:
            document: Any = msgspec.json.decode(bytes(self._body))
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise self._unreadable() from None
        if isinstance(document, dict):
            fields = cast("dict[str, Any]", document)
            document = fields.get("data", fields.get("models"))
        if not isinstance(document, list):
            raise self._unreadable()
        return Record(models=list(_names(cast("list[Any]", document))))

    def partial(self) -> Reply:
        """Nothing of a list is of use to a conversation."""
        return Reply()

    def _unreadable(self) -> ProviderError:
        return malformed(self._endpoint, "no list of models", bytes(self._body[:200]))


def is_among(model: str, models: Sequence[str]) -> bool:
    """Whether a server that has these models has this one: some put a folder in front of the name, or a tag behind."""
    return any(name in (model, f"{model}:latest") or name.endswith(f"/{model}") for name in models)


def nearest_model(model: str, models: Sequence[str]) -> str:
    """The name that is most like the one given; empty when none is."""
    from difflib import get_close_matches

    wanted = model.lower()
    by_lower = {name.lower(): name for name in models}
    close = get_close_matches(wanted, by_lower, n=1, cutoff=0.5)
    if close:
        return by_lower[close[0]]
    return next((name for lower, name in by_lower.items() if wanted in lower), "")


def _names(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, dict):
            fields = cast("dict[str, Any]", entry)
            entry = fields.get("id") or fields.get("name") or fields.get("model")
        if isinstance(entry, str):
            yield entry
