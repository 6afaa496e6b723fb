"""HTTP to addresses that somebody else chose: each one is looked at before it is connected to, and none is followed."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx

from hermes.models.http.certificates import Certificates
from hermes.models.http.proxies import proxy_for
from hermes.peers.failures import PeerError
from hermes.plugins.public_fetch import refuse_private_name

#: The addresses of a host, as IP addresses.
Resolve = Callable[[str, int], Awaitable[list[str]]]
#: Why the address of a URL must not be connected to; empty when it may.
Refusal = Callable[[str, str], str]

_PORTS = {"http": 80, "https": 443}
#: More than any answer needs; an endless one ends here.
MOST_BYTES = 64 * 1024 * 1024


class ScreenedTransport(httpx.AsyncBaseTransport):
    """Looks a host up once, screens what was found, and connects to that very address.

    A name that changes its meaning between two look-ups gains nothing.
    """

    def __init__(self, refusal: Refusal, resolve: Resolve | None = None) -> None:
        self._refusal = refusal
        self._resolve = resolve or look_up
        self._inner: dict[tuple[str, str], httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request, to the first of the host's addresses that takes it."""
        scheme, host = request.url.scheme, _host_of(request.url)
        proxy = proxy_for(scheme, host)
        addresses = await self.check(request.url)
        if proxy is not None:
            return _bounded(await self._through(scheme, proxy).handle_async_request(request))
        failure: httpx.TransportError | None = None
        for address in addresses:
            try:
                return _bounded(await self._through(scheme, "").handle_async_request(_pinned(request, host, address)))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        raise failure or httpx.ConnectError(f"{host} has no address")

    async def check(self, url: httpx.URL) -> list[str]:
        """The addresses of a URL, all of which may be connected to; none when a proxy looks the name up itself.

        Raises ``PeerError`` when it must not be called, and ``httpx.ConnectError`` when there is no such host.
        """
        host = _host_of(url)
        if url.scheme not in _PORTS or not host:
            raise PeerError(f"only http and https addresses can be called, not {url.scheme or 'this'}")
        if proxy_for(url.scheme, host) is not None:
            self._check_name(url, host)
            return []
        try:
            found = await self._resolve(host, url.port or _PORTS[url.scheme])
        except OSError as error:
            raise httpx.ConnectError(f"{host}: {error.strerror or error}") from None
        for address in found:
            self._check_address(url, address)
        return found

    async def aclose(self) -> None:
        """Close every connection."""
        for transport in self._inner.values():
            await transport.aclose()

    def _check_address(self, url: httpx.URL, address: str) -> None:
        problem = self._refusal(str(url), address)
        if problem:
            raise PeerError(problem)

    def _check_name(self, url: httpx.URL, host: str) -> None:
        try:
            refuse_private_name(host)
        except ValueError:
            # As good as any private address: whoever may reach one may reach this.
            self._check_address(url, "10.0.0.0")

    def _through(self, scheme: str, proxy: str) -> httpx.AsyncHTTPTransport:
        transport = self._inner.get((scheme, proxy))
        if transport is None:
            verify = Certificates().context("") if scheme == "https" or proxy.startswith("https") else False
            # Connections are not kept: hosts that share an address must not share one.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
            try:
                transport = httpx.AsyncHTTPTransport(verify=verify, trust_env=False, limits=limits, proxy=proxy or None)
            except ImportError:
                raise PeerError("the proxy of the environment speaks SOCKS; pip install 'httpx[socks]'") from None
            self._inner[scheme, proxy] = transport
        return transport


def _host_of(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii")


def _pinned(request: httpx.Request, host: str, address: str) -> httpx.Request:
    """The same request to one address. The host keeps its name in the header and in the certificate."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )


async def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host. A look-up that hangs is left behind, and keeps no program from ending."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def tell(found: list[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: list[str] | OSError
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(place[0]) for *_, place in entries))
        except OSError as error:
            found = error
        except UnicodeError:
            found = OSError("not the name of a host")
        try:
            loop.call_soon_threadsafe(tell, found)
        except RuntimeError:  # nobody waits any more, and the loop is closed
            return

    threading.Thread(target=ask, name="hermes-look-up", daemon=True).start()
    return await answer


def _bounded(response: httpx.Response) -> httpx.Response:
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    response.stream = _BoundedStream(stream)
    return response


class _BoundedStream(httpx.AsyncByteStream):
    """The body of an answer, up to what any answer needs."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._inner:
            total += len(chunk)
            if total > MOST_BYTES:
                raise PeerError(f"the answer is longer than {MOST_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
