"""One request and its answer, without the waiting: what is sent, what arrives, and what it comes to in the end."""

from __future__ import annotations

from collections.abc import Callable

from hermes.contract.response import Record
from hermes.errors import FailureReason, ProviderError
from hermes.models.endpoint import Endpoint
from hermes.models.failures import malformed, scrub
from hermes.models.http.address import Address, locate
from hermes.models.http.connections import Connection, S
from hermes.models.http.decoding import BodyDecoder
from hermes.models.http.exchange import ConnectTimeout, Patience, TimedOut
from hermes.models.http.http11 import Conversation, Head
from hermes.models.http.network_errors import (
    ConnectError,
    NetworkError,
    NotHttp,
    ProxyError,
    ProxyUnreachable,
    UnsendableHeader,
)
from hermes.models.reply import IncompleteReply, with_partial
from hermes.models.wires.wire import Delta, HttpRequest, Parser, ReasoningDelta, TextDelta, Wire

OnDelta = Callable[[Delta], object]

_MAX_ERROR_BODY = 64 * 1024
#: How long to wait for the formal end of a body whose answer is complete, to keep the connection.
_TAIL_SECONDS = 0.25


class Transfer:
    """What both drivers do between their reads and writes. What goes wrong comes out as a ``ProviderError``."""

    def __init__(
        self, endpoint: Endpoint, wire: Wire, request: HttpRequest, parser: Parser, on_delta: OnDelta | None
    ) -> None:
        self.address, self._target = locate(request.url)
        self.parser = parser
        self._endpoint = endpoint
        self._wire = wire
        self._request = request
        self._on_delta = on_delta
        self._shown = False
        self._head: Head | None = None
        self._decoder: BodyDecoder | None = None
        self._error_body = bytearray()
        self._broken: NetworkError | TimedOut | None = None

    @property
    def ca_bundle(self) -> str:
        """Whose certificates the endpoint trusts."""
        return self._endpoint.ca_bundle

    @property
    def key(self) -> str:
        """Which idle connections will do for this request."""
        return f"{self.address.origin} {self.ca_bundle}"

    def outgoing(self, connection: Connection[S]) -> list[bytes]:
        """The request as bytes for that connection."""
        request, target, extra = self._request, self._target, list[tuple[str, str]]()
        if connection.proxy is not None:
            target, extra = self.address.origin + target, connection.proxy.login()
        headers = [("host", self.address.authority), *request.headers, *extra]
        headers.append(("content-length", str(len(request.body))))
        return connection.http.ask(request.method, target, headers, request.body)

    def receive(self, data: bytes, http: Conversation, patience: Patience) -> bool:
        """Take what arrived; false when the answer is over."""
        http.receive(data)
        patience.phase = "next chunk"
        while True:
            part = http.next()
            if isinstance(part, bytes):
                if not self._body(part, patience):
                    return False
            elif isinstance(part, Head):
                self._begin(part)
            else:
                return part == "more"

    def break_off(self, error: NetworkError | TimedOut, phase: str) -> None:
        """The connection ended before the answer did. Raises unless something of the answer had arrived."""
        if isinstance(error, TimedOut):
            if not self.parser.done and (self._head is None or self._head.status < 300):
                raise self._timed_out(error) from None
        elif self._head is None:
            raise self._failed(error, phase) from None
        self._broken = error

    def result(self) -> Record:
        """The whole response, once it is over."""
        head = self._head
        if head is not None and not 200 <= head.status < 300:
            raise self._wire.error_from(self._endpoint, head.status, head.headers, bytes(self._error_body))
        try:
            response = self.parser.finish()
        except IncompleteReply as error:
            raise self._with_cause(error) from None
        if self._on_delta is not None and not self._shown:
            _show_whole(response, self._on_delta)
        return response

    # -- the answer ---------------------------------------------------------------------------------------------

    def _begin(self, head: Head) -> None:
        self._head = head
        encoding = head.headers.get("content-encoding", "").strip().lower()
        try:
            self._decoder = BodyDecoder(self._endpoint, encoding)
        except ProviderError:
            if head.status < 300:
                raise

    def _body(self, data: bytes, patience: Patience) -> bool:
        head, decoder = self._head, self._decoder
        assert head is not None
        if not 200 <= head.status < 300:
            return self._error_piece(data)
        assert decoder is not None
        parser, on_delta = self.parser, self._on_delta
        try:
            plain = decoder.decode(data)
        except ProviderError as error:
            raise self._with_partial(error) from None
        deltas = parser.feed(plain)
        if deltas and on_delta is not None:
            self._shown = True
            for delta in deltas:
                on_delta(delta)
        if parser.done:
            patience.settle_for(_TAIL_SECONDS)
        return True

    def _error_piece(self, data: bytes) -> bool:
        """The beginning of an error body. One that cannot be read to its end says enough by its status."""
        if self._decoder is None:
            return False
        try:
            self._error_body += self._decoder.decode(data)
        except ProviderError:
            return False
        del self._error_body[_MAX_ERROR_BODY:]
        return len(self._error_body) < _MAX_ERROR_BODY

    # -- what went wrong ----------------------------------------------------------------------------------------

    def _timed_out(self, error: TimedOut) -> ProviderError:
        seconds = f"{error.seconds:g} s"
        what = {
            "connect": f"no connection to {self.address.origin} within {seconds}",
            "sending": f"the server took nothing of the request for {seconds}",
            "first byte": f"no answer within {seconds}",
            "next chunk": f"the answer stalled for {seconds}",
            "total": f"the request took longer than {seconds} in all",
        }[error.phase]
        if error.phase == "connect":
            return ConnectTimeout(scrub(self._endpoint, f"{self._endpoint.provider}: {what} (timeout: connect)"))
        return self._error("timeout", f"{what} (timeout: {error.phase})")

    def _failed(self, error: NetworkError, phase: str) -> ProviderError:
        origin = self.address.origin
        if isinstance(error, UnsendableHeader):
            return self._error("bad_request", "a header has characters that cannot be sent; check extra_headers")
        if isinstance(error, ProxyError):
            return self._error("connection", f"the proxy did not connect to {origin}: {error}")
        if isinstance(error, ConnectError):
            return self._error(
                "connection",
                f"cannot connect to {origin}: {error}; {_connect_advice(error, self.address, self._endpoint)}",
            )
        if isinstance(error, NotHttp):
            return malformed(self._endpoint, f"{origin} does not answer in HTTP ({error})")
        if phase == "next chunk":
            return self._error("connection", f"{origin} closed the connection in the middle of the headers")
        return self._error("connection", f"{origin} closed the connection without an answer ({error})")

    def _error(self, reason: FailureReason, what: str) -> ProviderError:
        line = scrub(self._endpoint, f"{self._endpoint.provider}: {what}")
        return self._with_partial(ProviderError(line, reason=reason))

    def _with_partial(self, error: ProviderError) -> ProviderError:
        partial = self.parser.partial()
        has_begun = partial.content or partial.reasoning or partial.tool_calls
        return with_partial(error, partial) if has_begun else error

    def _with_cause(self, error: IncompleteReply) -> IncompleteReply:
        """The parser sees only that the answer is not whole; the connection may know why."""
        if self._broken is None or isinstance(self._broken, TimedOut):
            return error
        line = scrub(self._endpoint, f"{error} ({self._broken})")
        return IncompleteReply(line, partial=error.partial, reason=error.reason, status_code=error.status_code)


def _show_whole(response: Record, on_delta: OnDelta) -> None:
    """A server that was asked for a stream may answer with one document: its text is shown at once."""
    message = response.choices[0].message
    if message.reasoning:
        on_delta(ReasoningDelta(message.reasoning))
    if message.content:
        on_delta(TextDelta(message.content))


def _connect_advice(error: ConnectError, address: Address, endpoint: Endpoint) -> str:
    detail, setting = str(error), endpoint.address_setting
    if isinstance(error, ProxyUnreachable):
        return "check the proxy in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY"
    if "Hostname mismatch" in detail or "IP address mismatch" in detail:
        return f"the certificate is for another host, check {setting}"
    if "CERTIFICATE_VERIFY_FAILED" in detail:
        return "if the certificate is your own, name its authority in SSL_CERT_FILE or ca_bundle"
    if "WRONG_VERSION_NUMBER" in detail or "record layer failure" in detail:
        return f"the port does not speak TLS, use http:// in {setting}"
    if address.socket_path:
        return f"check the socket file in {setting} and that the server is running"
    return f"check {setting} and that the server is running"
