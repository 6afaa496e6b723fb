"""``ctx.http``: HTTP requests for plugins over the host's client, with the SSRF guard on by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.base.http.exchange import Timeouts
from hermes.base.scope import Interrupt, current_scope
from hermes.base.version import __version__

if TYPE_CHECKING:
    from hermes.base.http.client import HttpClient, HttpResponse

_MAX_BYTES = 16 * 1024 * 1024


class PluginHttp:
    """Sends requests for plugins. Every method raises a ``HermesError`` when there is no whole response.

    A URL from a model, a page or another caller is untrusted: the SSRF guard refuses private addresses, for redirects
    too. ``allow_private=True`` is for a URL that the user configured. An interrupt of the turn ends its requests.
    """

    def __init__(self, client: HttpClient, *, allow_private: bool = False) -> None:
        self._client = client
        #: What ``security.allow_private_urls`` says.
        self._allow_private = allow_private

    def get(self, url: str, *, follow_redirects: int = 5, **options: Any) -> HttpResponse:
        """``request`` with GET, following redirects."""
        return self.request("GET", url, follow_redirects=follow_redirects, **options)

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        json: Any = None,
        timeout: float = 60.0,
        max_bytes: int = _MAX_BYTES,
        follow_redirects: int = 0,
        allow_private: bool = False,
        interrupt: Interrupt | None = None,
    ) -> HttpResponse:
        """Send a request and return the whole response, whatever its status: ``status``, ``headers`` (lower case),
        ``body``, ``text``, ``json()``, ``is_success`` and ``url``.

        ``json`` is sent as the body. ``timeout`` limits the request in all. With redirects, ``Authorization`` and
        ``Cookie`` stay with the first server. ``interrupt`` ends it, by default that of the turn.
        """
        from hermes.base.http.ssrf import public_only

        lines = {"user-agent": f"hermes/{__version__}", "accept": "*/*", "accept-encoding": "gzip, deflate"}
        if json is not None:
            body = msgspec.json.encode(json)
            lines["content-type"] = "application/json"
        lines |= {name.lower(): value for name, value in (headers or {}).items()}
        return self._client.request(
            method,
            url,
            list(lines.items()),
            body,
            timeouts=Timeouts.within(timeout),
            interrupt=interrupt or _turn_interrupt(),
            guard=None if allow_private or self._allow_private else public_only,
            max_bytes=max_bytes,
            follow_redirects=follow_redirects,
        )

    async def arequest(self, method: str, url: str, **options: Any) -> HttpResponse:
        """``request`` for a coroutine, with its other options. Cancelling the task ends the request."""
        from hermes.base.http.threads import run_in_thread

        return await run_in_thread(
            lambda interrupt: self.request(method, url, interrupt=interrupt, **options), _turn_interrupt()
        )


def _turn_interrupt() -> Interrupt | None:
    scope = current_scope.get()
    return None if scope is None else scope.interrupt
