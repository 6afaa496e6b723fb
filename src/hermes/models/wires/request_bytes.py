"""The bytes of a request: what every wire does with its keyword arguments in the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode

import msgspec

from hermes.errors import ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.failures import message
from hermes.models.wires.wire import HttpRequest
from hermes.version import __version__

#: Keyword arguments that steer an SDK and are no part of the body.
_NOT_IN_BODY = frozenset({"extra_body", "extra_headers", "extra_query", "timeout", "http_client"})


def post(endpoint: Endpoint, url: str, kwargs: Mapping[str, Any], own_headers: Mapping[str, str]) -> HttpRequest:
    """The request for ``kwargs`` as an SDK sends it: the extras merged in, what steers the SDK left out."""
    body = {name: value for name, value in kwargs.items() if name not in _NOT_IN_BODY}
    body.update(kwargs.get("extra_body") or {})
    query = kwargs.get("extra_query")
    if query:
        url += ("&" if "?" in url else "?") + urlencode(query, doseq=True)
    headers = _headers(own_headers, endpoint.extra_headers, kwargs.get("extra_headers") or {})
    return HttpRequest("POST", url, headers, _encode(endpoint, body))


def bearer(endpoint: Endpoint) -> dict[str, str]:
    """The key as most servers take it; nothing when there is none."""
    return {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}


def _headers(*sources: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Request headers by name; later ones win, and ``None`` removes one."""
    headers: dict[str, str | None] = {
        "accept": "application/json, text/event-stream",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "user-agent": f"hermes/{__version__}",
    }
    for source in sources:
        headers.update((name.lower(), value) for name, value in source.items())
    return [(name, str(value)) for name, value in headers.items() if value is not None]


def _encode(endpoint: Endpoint, body: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_lone_surrogates(body))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        detail = f"it cannot be written as JSON ({error})"
        raise ProviderError(message(endpoint, "bad_request", detail, None), reason="bad_request") from None


def _without_lone_surrogates(value: Any) -> Any:
    """Text from undecodable file names or pipes cannot be sent as UTF-8; the stray parts become ``?``."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        fields = cast("dict[Any, Any]", value)
        return {_without_lone_surrogates(name): _without_lone_surrogates(item) for name, item in fields.items()}
    if isinstance(value, list | tuple):
        return [_without_lone_surrogates(item) for item in cast("list[Any]", value)]
    return value
