"""Model driver: sends a wire's request over HTTP or a provider's own client, feeds the parser, names failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hermes.base.errors import Interrupted, ProviderError
from hermes.base.http.address import parse_url
from hermes.base.http.client import HttpClient
from hermes.base.http.errors import (
    BadBody,
    BodyTooLarge,
    ConnectError,
    HttpError,
    NetworkError,
    NotHttp,
    TimedOut,
    UnsendableHeader,
    explain,
)
from hermes.base.http.exchange import Timeouts
from hermes.base.scope import Interrupt
from hermes.models.endpoint import Endpoint
from hermes.models.failures import ConnectTimeout, error_from_response, malformed, scrub
from hermes.models.reply import Completion, IncompleteReply, InterruptedReply, with_partial
from hermes.models.wires.wire import Delta, HttpRequest, Parser, ReasoningDelta, TextDelta, Wire

OnDelta = Callable[[Delta], object]

_MAX_ERROR_BODY = 64 * 1024
#: How long to wait for the formal end of a body whose answer is complete, to keep the connection.
_TAIL_SECONDS = 0.25


class Driver:
    """Sends model requests in the caller's thread. One serves all threads of a process."""

    def __init__(self, http: HttpClient | None = None) -> None:
        self.http = http or HttpClient()

    def send(
        self,
        endpoint: Endpoint,
        wire: Wire,
        kwargs: Mapping[str, Any],
        *,
        interrupt: Interrupt,
        on_delta: OnDelta | None = None,
        on_wait: Callable[[], object] | None = None,
    ) -> Completion:
        """One request and its whole answer; ``on_delta`` sees the pieces as they arrive.

        ``on_wait`` is called when the request is sent, and before a new connection is opened for it.
        Raises ``ProviderError`` (an ``IncompleteReply`` when part of an answer had arrived) or, when the
        interrupt is cancelled, ``InterruptedReply``. A numeric ``timeout`` in ``kwargs`` limits the whole call.
        """
        timeouts = timeouts_of(endpoint, kwargs)
        client = None
        if endpoint.make_client is not None:
            from hermes.models.wires.own_client import open_client

            client = open_client(endpoint, endpoint.make_client, timeouts)
            if client is None:
                endpoint = replace(endpoint, make_client=None)
        parser = wire.parser(endpoint, streaming=bool(kwargs.get("stream")), tools=bool(kwargs.get("tools")))
        transfer = _Transfer(endpoint, parser, on_delta)
        try:
            if client is not None:
                from hermes.models.wires.own_client import OwnAnswer

                pieces = OwnAnswer(client, endpoint, kwargs).pieces(timeouts, interrupt)
                if on_wait is not None:
                    on_wait()
                return transfer.take(pieces)
            return transfer.run(self.http, wire.http_request(endpoint, kwargs), timeouts, interrupt, on_wait)
        except Interrupted as stop:
            raise InterruptedReply(stop.reason, parser.partial()) from None

    def close(self) -> None:
        """Close the connections that are idle. One that is in use is closed by its own request."""
        self.http.close()


def timeouts_of(endpoint: Endpoint, kwargs: Mapping[str, Any]) -> Timeouts:
    """The endpoint's limits; a numeric ``timeout`` of the request is the limit for the whole of it."""
    total = kwargs.get("timeout")
    if isinstance(total, int | float) and total > 0:
        return replace(endpoint.timeouts, total=float(total))
    return endpoint.timeouts


class _Transfer(Struct):
    """One request and its answer. Every failure becomes a ``ProviderError``."""

    _endpoint: Endpoint
    _parser: Parser
    _on_delta: OnDelta | None
    _shown: bool = False

    def run(
        self,
        http: HttpClient,
        request: HttpRequest,
        timeouts: Timeouts,
        interrupt: Interrupt,
        on_wait: Callable[[], object] | None,
    ) -> Completion:
        """Send the request and read the answer to its end, or to where it breaks off."""
        endpoint, started = self._endpoint, False
        broken: NetworkError | None = None
        try:
            with http.open(
                request.method,
                request.url,
                request.headers,
                request.body,
                timeouts=timeouts,
                interrupt=interrupt,
                ca_bundle=endpoint.ca_bundle,
                max_bytes=endpoint.max_response_bytes,
                repeatable=True,
                on_wait=on_wait,
            ) as response:
                if not 200 <= response.status < 300:
                    body = response.read_prefix(_MAX_ERROR_BODY)
                    raise error_from_response(endpoint, response.status, response.headers, body)
                started = True
                self._read(response, response.expect_end)
        except BodyTooLarge as error:
            # It would not end the next time either.
            raise _without_retry(
                self._with_partial(malformed(endpoint, f"{error} (model.max_response_bytes)"))
            ) from None
        except BadBody as error:
            raise self._with_partial(malformed(endpoint, str(error))) from None
        except TimedOut as error:
            if not self._parser.done:
                raise self._failure(error, request.url) from None
        except NetworkError as error:
            if not started:
                raise self._failure(error, request.url) from None
            broken = error
        except HttpError as error:
            raise self._failure(error, request.url) from None
        return self._result(broken)

    def take(self, pieces: Iterable[bytes]) -> Completion:
        """Read an answer that comes from a client of the provider's own."""
        try:
            self._read(pieces)
        except ProviderError as error:
            raise self._with_partial(error) from error.__cause__
        return self._result(None)

    def _read(self, pieces: Iterable[bytes], expect_end: Callable[[float], object] | None = None) -> None:
        """Read an answer; ``expect_end`` waits for the end of a stream whose answer is complete."""
        for piece in pieces:
            deltas = self._parser.feed(piece)
            if deltas and self._on_delta is not None:
                self._shown = True
                for delta in deltas:
                    self._on_delta(delta)
            if expect_end is not None and self._parser.done:
                expect_end(_TAIL_SECONDS)

    def _result(self, broken: NetworkError | None) -> Completion:
        try:
            response = self._parser.finish()
        except IncompleteReply as error:
            raise self._with_cause(error, broken) from None
        if self._on_delta is not None and not self._shown:
            _show_whole(response, self._on_delta)
        return response

    # -- failures -----------------------------------------------------------------------------------------------

    def _failure(self, error: HttpError, url: str) -> ProviderError:
        endpoint = self._endpoint
        server, _ = parse_url(url)
        text = explain(error, server, endpoint.address_setting)
        if isinstance(error, NotHttp):
            return malformed(endpoint, text)
        line = scrub(endpoint, f"{endpoint.provider}: {text}")
        if isinstance(error, TimedOut):
            if error.phase == "connect":
                return ConnectTimeout(line)
            return self._with_partial(ProviderError(line, reason="timeout"))
        is_our_fault = isinstance(error, UnsendableHeader) or not isinstance(error, NetworkError)
        failure = self._with_partial(ProviderError(line, reason="bad_request" if is_our_fault else "connection"))
        return _without_retry(failure) if isinstance(error, ConnectError) and error.is_permanent else failure

    def _with_partial(self, error: ProviderError) -> ProviderError:
        partial = self._parser.partial()
        has_begun = partial.content or partial.reasoning or partial.tool_calls
        return with_partial(error, partial) if has_begun else error

    def _with_cause(self, error: IncompleteReply, broken: NetworkError | None) -> IncompleteReply:
        """The parser sees only that the answer is not whole; the connection may know why."""
        if broken is None:
            return error
        line = scrub(self._endpoint, f"{error} ({broken})")
        return IncompleteReply(line, partial=error.partial, reason=error.reason, status_code=error.status_code)


def _without_retry(error: ProviderError) -> ProviderError:
    """The same error, after which the same endpoint is not asked again: it would fail in the same way."""
    error.retryable = False
    return error


def _show_whole(response: Completion, on_delta: OnDelta) -> None:
    """A server that was asked for a stream may answer with one document: its text is shown at once."""
    message = response["choices"][0]["message"]
    if message.get("reasoning"):
        on_delta(ReasoningDelta(message["reasoning"]))
    if message.get("content"):
        on_delta(TextDelta(message["content"]))
