"""What every request to another agent carries: its token, and the trace that the work belongs to."""

from __future__ import annotations

import sys
from collections.abc import Generator

import httpx
from a2a.types import AgentCard

from hermes.peers.addresses import Peer, same_place
from hermes.peers.failures import PeerError
from hermes.trace.parent import incoming


class Credentials(httpx.Auth):
    """Shows the agent its token, and nobody else."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._header, self._value = "Authorization", f"Bearer {peer.token}"

    def learn(self, card: AgentCard) -> None:
        """Use the header that the card asks for; a bearer token if it is taken."""
        schemes = card.security_schemes.values()
        keys = [scheme.api_key_security_scheme for scheme in schemes if scheme.HasField("api_key_security_scheme")]
        takes_bearer = any(scheme.WhichOneof("scheme") != "api_key_security_scheme" for scheme in schemes)
        header = next((key.name for key in keys if key.location == "header" and key.name), "")
        if header and not takes_bearer:
            self._header, self._value = header, self._peer.token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """Add the header. A card that sends the token elsewhere is not obeyed."""
        if self._peer.token:
            if not same_place(str(request.url), self._peer.url):
                raise PeerError(
                    f"the card of {self._peer.name} sends callers to {request.url.copy_with(path='/', query=None)}, "
                    f"another server, which the token is not for; use the URL of that server if it may have it"
                )
            request.headers[self._header] = self._value
        yield request


def trace_headers() -> dict[str, str]:
    """The trace that the work in hand belongs to: the current span's, else the one that the turn came with."""
    headers: dict[str, str] = {}
    if "opentelemetry.trace" in sys.modules:  # whoever makes spans has imported it
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(headers)
    return headers or dict(incoming())
