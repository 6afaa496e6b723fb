"""Context windows as servers tell them: from the list of models, or from Ollama's description of one.

Nothing is asked before a conversation is long enough for the answer to matter.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit, urlunsplit

import msgspec

from hermes.base.config.files import TimedCache
from hermes.base.errors import ConfigError
from hermes.base.http.exchange import Timeouts
from hermes.models.endpoint import Endpoint

if TYPE_CHECKING:
    from hermes.base.http.client import HttpClient
    from hermes.base.scope import Interrupt

log = logging.getLogger("hermes.model")

_TIMEOUTS = Timeouts(2.0, 4.0, 4.0, 6.0)
_LONGEST_ANSWER = 8 * 1024 * 1024
#: Where servers have it: vLLM and SGLang, OpenRouter and Together, Groq, LM Studio.
_NAMES = ("max_model_len", "context_length", "context_window", "loaded_context_length", "max_context_length")


class ServerWindows:
    """Asks servers for the windows of their models, and remembers the answers in the home."""

    def __init__(self, home: Path, http: HttpClient) -> None:
        #: What servers told; 0 where one told nothing.
        self._stored = TimedCache(home, "windows.json", int)
        self._http = http
        self._known: dict[str, int | None] = {}

    def known(self, endpoint: Endpoint) -> int | None:
        """The window of a model, as far as its server was asked in this process."""
        return self._known.get(_key(endpoint)) if self._known else None

    def find(self, endpoint: Endpoint, interrupt: Interrupt) -> int | None:
        """The window of a model: remembered, or asked for now. ``None`` when the server does not tell."""
        key = _key(endpoint)
        if key in self._known:
            return self._known[key]
        stored = self._stored.get(key)
        if stored is None:
            stored = self._ask(endpoint, interrupt) or 0
            self._stored.keep(key, stored)
        found = self._known[key] = stored or None
        if found is not None:
            log.info("the server says that %s takes %d tokens", endpoint.model, found)
        return found

    def _ask(self, endpoint: Endpoint, interrupt: Interrupt) -> int | None:
        listed = window_in_list(self._get(endpoint, "GET", endpoint.url("/models"), b"", interrupt), endpoint.model)
        if listed is not None or endpoint.api_mode != "chat_completions":
            return listed
        parts = urlsplit(endpoint.base_url)
        path = parts.path.rstrip("/").removesuffix("/v1") + "/api/show"
        body = msgspec.json.encode({"model": endpoint.model})
        if endpoint.provider != "ollama" and parts.port != 11434:
            return None
        return window_in_description(
            self._get(endpoint, "POST", urlunsplit((parts.scheme, parts.netloc, path, "", "")), body, interrupt)
        )

    def _get(self, endpoint: Endpoint, method: str, url: str, body: bytes, interrupt: Interrupt) -> Any:
        from hermes.base.http.errors import HttpError  # loaded with the first request

        headers = {"accept": "application/json", **dict(endpoint.extra_headers)}
        if endpoint.api_key:
            headers["authorization"] = f"Bearer {endpoint.api_key}"
        try:
            response = self._http.request(
                method,
                url,
                list(headers.items()),
                body,
                timeouts=_TIMEOUTS,
                interrupt=interrupt,
                ca_bundle=endpoint.ca_bundle,
                max_bytes=_LONGEST_ANSWER,
            )
            return response.json() if response.is_success else None
        except (HttpError, ConfigError, ValueError) as error:
            log.debug("the server of %s does not tell its window: %s", endpoint.model, error)
            return None


def window_in_list(document: Any, model: str) -> int | None:
    """The window of a model in a server's list of models. A server with one model has it under any name."""
    entries: Any = cast("dict[str, Any]", document).get("data") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        return None
    fields = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", entries) if isinstance(entry, dict)]
    found = [entry for entry in fields if model in (entry.get("id"), entry.get("name"), entry.get("root"))]
    entry = next(iter(found or (fields if len(fields) == 1 else [])), None)
    if entry is None:
        return None
    meta = entry.get("meta")
    places = [entry, cast("dict[str, Any]", meta) if isinstance(meta, dict) else {}]
    # llama.cpp: the length it runs with, not the one that the model was trained for.
    values = [place.get(name) for place in places for name in (*_NAMES, "n_ctx")]
    return next((value for value in values if _is_window(value)), None)


def window_in_description(document: Any) -> int | None:
    """The window in Ollama's description of a model: what it is set to run with, else what it was made for."""
    if not isinstance(document, dict):
        return None
    fields = cast("dict[str, Any]", document)
    for line in str(fields.get("parameters") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "num_ctx" and value.strip().isdecimal():
            return int(value)
    info: Any = fields.get("model_info")
    values = cast("dict[str, Any]", info).items() if isinstance(info, dict) else ()
    return next((value for name, value in values if name.endswith(".context_length") and _is_window(value)), None)


def _is_window(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 256 <= value <= 100_000_000


def _key(endpoint: Endpoint) -> str:
    return hashlib.blake2b(f"{endpoint.base_url} {endpoint.model}".encode(), digest_size=12).hexdigest()
