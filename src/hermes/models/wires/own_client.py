"""A provider's own client: what a plugin's ``create_client`` makes is asked in place of an HTTP server.

It is an object with ``chat.completions.create(**kwargs)``, as the SDK of the chat format has it, which returns the
answer or, when asked for a stream, its pieces.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, cast

import msgspec
from msgspec import Struct

from hermes.base.errors import Interrupted, ProviderError
from hermes.base.http.exchange import Timeouts
from hermes.base.scope import Interrupt
from hermes.models.endpoint import Endpoint
from hermes.models.failures import classify, message

#: How deep an answer may be nested.
_MAX_DEPTH = 20


class _End(Struct, frozen=True):
    error: Exception | None = None


class OwnAnswer:
    """One answer of a provider's own client, as the bytes that a server would have sent."""

    def __init__(self, client: Any, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> None:
        self._client = client
        self._endpoint = endpoint
        self._kwargs = kwargs
        self._arrived: SimpleQueue[bytes | _End] = SimpleQueue()

    def pieces(self, timeouts: Timeouts, interrupt: Interrupt) -> Iterator[bytes]:
        """The answer as it arrives. A client that does not return is left behind when the turn is stopped."""
        # A thread of its own, because a call into foreign code cannot be stopped from outside.
        Thread(target=copy_context().run, args=(self._ask,), name="own-client", daemon=True).start()
        with interrupt.on_cancel(lambda: self._arrived.put(_End())):
            try:
                yield from self._take(timeouts, interrupt)
            except BaseException:
                Thread(target=self._stop, name="own-client-stop", daemon=True).start()
                raise

    def _take(self, timeouts: Timeouts, interrupt: Interrupt) -> Iterator[bytes]:
        ends_at = monotonic() + timeouts.total if timeouts.total else None
        limit = timeouts.first_byte
        while True:
            left = None if ends_at is None else max(ends_at - monotonic(), 0)
            try:
                found = self._arrived.get(timeout=min((one for one in (left, limit) if one is not None), default=None))
            except Empty:
                raise self._failure(TimeoutError("its client did not answer in time")) from None
            if interrupt.cancelled:
                raise Interrupted(interrupt.reason)
            if isinstance(found, _End):
                if found.error is not None:
                    raise self._failure(found.error) from found.error
                return
            yield found
            limit = timeouts.between_chunks

    def _ask(self) -> None:
        end = _End()
        try:
            answer = self._client.chat.completions.create(**self._kwargs)
            for piece in _encoded(answer):
                self._arrived.put(piece)
        except Exception as error:
            end = _End(error)
        self._arrived.put(end)
        self._call("close")

    def _stop(self) -> None:
        self._call("cancel")
        self._call("close")

    def _call(self, method: str) -> None:
        found: object = getattr(self._client, method, None)
        if callable(found):
            with contextlib.suppress(Exception):  # it is of no use any more
                found()

    def _failure(self, error: Exception) -> ProviderError:
        return failure_of(self._endpoint, error)


def open_client(endpoint: Endpoint, make: Callable[..., Any], timeouts: Timeouts) -> Any:
    """The client for one request; ``None`` when the provider leaves the request to the host."""
    try:
        return make(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url,
            default_headers=dict(endpoint.extra_headers),
            timeout=timeouts.total,
        )
    except Exception as error:
        failure = failure_of(endpoint, error)
        failure.retryable = False  # the same call would fail in the same way
        raise failure from error


def failure_of(endpoint: Endpoint, error: Exception) -> ProviderError:
    """What a client raised, by the status that it has from its server, as errors of SDKs do."""
    if isinstance(error, ProviderError):
        return error
    status: object = getattr(error, "status_code", None)
    code = status if isinstance(status, int) and not isinstance(status, bool) else None
    reason = "timeout" if isinstance(error, TimeoutError) else classify(code)
    detail = str(error) or type(error).__name__
    return ProviderError(message(endpoint, reason, detail, code), reason=reason, status_code=code)


def _encoded(answer: Any) -> Iterator[bytes]:
    """The bytes of one document, or of the events of a stream."""
    if hasattr(answer, "choices") or isinstance(answer, Mapping):
        yield msgspec.json.encode(_plain(answer))
        return
    for piece in cast("Iterable[Any]", answer):
        yield b"data: " + msgspec.json.encode(_plain(piece)) + b"\n\n"
    yield b"data: [DONE]\n\n"


def _plain(value: Any, depth: int = 0) -> Any:
    """Objects of any class as data, without what is not given."""
    if value is None or isinstance(value, str | int | float):
        return value
    if depth > _MAX_DEPTH:
        raise ValueError("the answer of the client is nested too deeply")
    if callable(getattr(value, "model_dump", None)):
        value = value.model_dump()
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in cast("list[Any]", value)]
    fields = cast("Mapping[Any, Any]", value if isinstance(value, Mapping) else vars(value))
    named = {str(name): item for name, item in fields.items() if item is not None and not callable(item)}
    return {name: _plain(item, depth + 1) for name, item in named.items() if not name.startswith("_")}
