"""One request on its way out and its answer on its way in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import httpcore2

from hermes.contract.response import Record
from hermes.errors import FailureReason, ProviderError
from hermes.providers.connections import Connection, Connections, parse_url
from hermes.providers.decoding import BodyDecoder
from hermes.providers.endpoint import Endpoint
from hermes.providers.exchange import Exchange, TimedOut
from hermes.providers.failures import malformed, scrub
from hermes.providers.reply import IncompleteReply
from hermes.providers.wire import Delta, HttpRequest, Parser, ReasoningDelta, TextDelta, Wire

OnDelta = Callable[[Delta], object]

_MAX_ERROR_BODY = 64 * 1024
#: How long to wait for the formal end of a body whose answer is complete, to keep the connection.
_TAIL_SECONDS = 0.25

_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
)


class Transfer:
    """Drives one exchange; whatever goes wrong on the way comes out as a ``ProviderError``."""

    def __init__(
        self, endpoint: Endpoint, wire: Wire, parser: Parser, exchange: Exchange, on_delta: OnDelta | None
    ) -> None:
        self._endpoint = endpoint
        self._wire = wire
        self._parser = parser
        self._exchange = exchange
        self._on_delta = on_delta
        self._answered = False
        self._shown = False

    def run(self, connections: Connections, request: HttpRequest) -> Record:
        """Send the request, read the answer to its end and return it."""
        outgoing = self._prepare(request)
        connection = connections.take(outgoing.url)
        connection.backend.exchange = self._exchange
        try:
            self._converse(connection, outgoing)
        except TimedOut as error:
            if not self._parser.done:
                raise self._timed_out(error, outgoing.url) from None
        except _FAILURES as error:
            # Once the answer has begun, the parser knows best whether what arrived is all of it.
            if not self._answered:
                raise self._failed(error, outgoing.url) from None
        finally:
            self._exchange.release()
            connections.give_back(connection)
        response = self._parser.finish()
        if self._on_delta is not None and not self._shown:
            _show_whole(response, self._on_delta)
        return response

    def _prepare(self, request: HttpRequest) -> httpcore2.Request:
        url = parse_url(request.url)
        headers = [("host", _host_header(url)), *request.headers, ("content-length", str(len(request.body)))]
        try:
            return httpcore2.Request(request.method, url, headers=headers, content=request.body)
        except TypeError:
            raise self._bad_header() from None

    def _converse(self, connection: Connection, outgoing: httpcore2.Request) -> None:
        response = connection.http.handle_request(outgoing)
        try:
            self._answered = True
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            encoding = headers.get("content-encoding", "").strip().lower()
            stream = cast("Iterable[bytes]", response.stream)
            if 200 <= response.status < 300:
                self._receive(stream, BodyDecoder(self._endpoint, encoding))
            else:
                body = self._error_body(stream, encoding)
                raise self._wire.error_from(self._endpoint, response.status, headers, body)
        finally:
            response.close()

    def _receive(self, stream: Iterable[bytes], decoder: BodyDecoder) -> None:
        parser, on_delta, decode = self._parser, self._on_delta, decoder.decode
        for data in stream:
            deltas = parser.feed(decode(data))
            if deltas and on_delta is not None:
                self._shown = True
                for delta in deltas:
                    on_delta(delta)
            if parser.done:
                self._exchange.settle_for(_TAIL_SECONDS)

    def _error_body(self, stream: Iterable[bytes], encoding: str) -> bytes:
        """The beginning of an error body. One that cannot be read to its end says enough by its status."""
        body = bytearray()
        try:
            decoder = BodyDecoder(self._endpoint, encoding)
            for data in stream:
                body += decoder.decode(data)
                if len(body) >= _MAX_ERROR_BODY:
                    break
        except (*_FAILURES, TimedOut, ProviderError):
            pass
        return bytes(body[:_MAX_ERROR_BODY])

    def _timed_out(self, error: TimedOut, url: httpcore2.URL) -> ProviderError:
        seconds = f"{error.seconds:g} s"
        what = {
            "connect": f"no connection to {url.origin} within {seconds}",
            "first byte": f"no answer within {seconds}",
            "next chunk": f"the answer stalled for {seconds}",
            "total": f"the request took longer than {seconds} in all",
        }[error.phase]
        return self._error("timeout", f"{what} (timeout: {error.phase})")

    def _failed(self, error: Exception, url: httpcore2.URL) -> ProviderError:
        if isinstance(error, httpcore2.LocalProtocolError):
            return self._bad_header()
        if isinstance(error, httpcore2.ProxyError):
            return self._error("connection", f"the proxy refused to connect to {url.origin}: {error}")
        if isinstance(error, httpcore2.ConnectError):
            return self._error("connection", f"cannot connect to {url.origin}: {error}; {_connect_advice(str(error))}")
        if self._exchange.phase == "next chunk" and isinstance(error, httpcore2.RemoteProtocolError):
            return malformed(self._endpoint, f"{url.origin} does not answer in HTTP ({error})")
        return self._error("connection", f"{url.origin} closed the connection without an answer ({error})")

    def _bad_header(self) -> ProviderError:
        # The library's own message would show the header, which may be the key.
        return self._error("bad_request", "a header has characters that cannot be sent; check extra_headers")

    def _error(self, reason: FailureReason, what: str) -> ProviderError:
        line = scrub(self._endpoint, f"{self._endpoint.provider}: {what}")
        partial = self._parser.partial()
        if partial.content or partial.reasoning or partial.tool_calls:
            return IncompleteReply(line, partial=partial, reason=reason)
        return ProviderError(line, reason=reason)


def _host_header(url: httpcore2.URL) -> bytes:
    host = b"[%b]" % url.host if b":" in url.host else url.host
    default = {b"http": 80, b"https": 443}[url.scheme]
    return host if url.port == default else b"%b:%d" % (host, url.port or default)


def _show_whole(response: Record, on_delta: OnDelta) -> None:
    """A server that was asked for a stream may answer with one document: its text is shown at once."""
    message = response.choices[0].message
    if message.reasoning:
        on_delta(ReasoningDelta(message.reasoning))
    if message.content:
        on_delta(TextDelta(message.content))


def _connect_advice(detail: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in detail:
        return "if the certificate is your own, name its authority in SSL_CERT_FILE"
    if "WRONG_VERSION_NUMBER" in detail or "record layer failure" in detail:
        return "the port does not speak TLS, use http:// in model.base_url"
    return "check model.base_url and that the server is running"
