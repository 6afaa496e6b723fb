"""How a connection gets through a proxy: what is said to the proxy before the server can be spoken to.

Each tunnel is a generator without I/O. It yields bytes to send, possibly none, and is sent what arrived next.
"""

from __future__ import annotations

from collections.abc import Generator

from hermes.models.http.address import Address
from hermes.models.http.http11 import Conversation, Head
from hermes.models.http.network_errors import NetworkError, ProxyError
from hermes.models.http.proxies import Proxy

Steps = Generator[bytes, bytes, None]

_SOCKS_REFUSALS = {
    1: "it failed",
    2: "its rules forbid it",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "the connection was refused",
    6: "it took too long",
}
_SOCKS_ADDRESS_LENGTHS = {1: 4, 4: 16}


def tunnel(proxy: Proxy, address: Address) -> Steps:
    """What makes the proxy pass everything that follows on to the address."""
    return _socks(proxy, address) if proxy.is_socks else _connect(proxy, address)


def _connect(proxy: Proxy, address: Address) -> Steps:
    host = f"[{address.host}]" if ":" in address.host else address.host
    target = f"{host}:{address.port}"
    http = Conversation()
    [to_send] = http.ask("CONNECT", target, [("host", target), *proxy.login()], b"")
    try:
        while True:
            http.receive((yield to_send))
            to_send = b""
            answer = http.next()
            if isinstance(answer, Head):
                if 200 <= answer.status < 300:
                    return
                raise ProxyError(_refusal(answer.status, proxy))
    except ProxyError:
        raise
    except NetworkError as error:
        raise ProxyError(f"it does not answer in HTTP ({error})") from error


def _refusal(status: int, proxy: Proxy) -> str:
    if status == 407:
        given = "refused the login in" if proxy.username else "wants a login in"
        return f"it {given} the proxy URL (HTTP 407)"
    return f"it answered HTTP {status}"


def _socks(proxy: Proxy, address: Address) -> Steps:
    """SOCKS version 5; the proxy looks the host name up."""
    pending = bytearray()
    method = 2 if proxy.username else 0
    to_send = bytes([5, 1, method])
    chosen = yield from _exactly(2, pending, to_send)
    if chosen[0] != 5 or chosen[1] != method:
        raise ProxyError("it wants another kind of login" if chosen[0] == 5 else "it does not speak SOCKS 5")
    if proxy.username:
        name, password = proxy.username.encode()[:255], proxy.password.encode()[:255]
        verdict = yield from _exactly(2, pending, b"\x01%c%b%c%b" % (len(name), name, len(password), password))
        if verdict[1] != 0:
            raise ProxyError("it refused the login in the proxy URL")
    host = address.host.encode()
    answer = yield from _exactly(
        5, pending, b"\x05\x01\x00\x03%c%b%b" % (len(host), host, address.port.to_bytes(2, "big"))
    )
    if answer[1] != 0:
        raise ProxyError(_SOCKS_REFUSALS.get(answer[1], f"SOCKS error {answer[1]}"))
    # The rest names the address the proxy connects from, which nobody needs; its first byte may be its length.
    rest = _SOCKS_ADDRESS_LENGTHS.get(answer[3], answer[4] + 1)
    yield from _exactly(rest - 1 + 2, pending, b"")


def _exactly(count: int, pending: bytearray, to_send: bytes) -> Generator[bytes, bytes, bytes]:
    """Send, then wait for so many bytes."""
    if to_send:
        pending += _alive((yield to_send))
    while len(pending) < count:
        pending += _alive((yield b""))
    found = bytes(pending[:count])
    del pending[:count]
    return found


def _alive(data: bytes) -> bytes:
    if not data:
        raise ProxyError("it closed the connection")
    return data
