"""OAuth for MCP servers: tokens in private files, refreshed by one process at a time, sign-in with a browser."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from hermes.base.config.files import open_lock, try_lock, write_atomically
from hermes.service.mcp.errors import McpError
from hermes.service.mcp.transport.tokens import token_file

if TYPE_CHECKING:
    import httpx2

    from hermes.service.mcp.settings import McpSettings

#: A token that expires this soon is refreshed before it is used, in seconds.
_EARLY = 30.0
_LOCK_EVERY = 0.05
_SIGN_IN_SECONDS = 300.0
_PAGE = b"<!doctype html><title>Hermes</title><p>You are signed in. You can close this page."


class _Stored(msgspec.Struct, omit_defaults=True):
    """The file of one server."""

    url: str = ""
    tokens: dict[str, Any] = {}
    client: dict[str, Any] = {}
    expires_at: float = 0


class FileTokens:
    """The tokens of one server in a file that only its owner can read."""

    def __init__(self, home: Path, settings: McpSettings) -> None:
        self._path = token_file(home, settings.name)
        self._settings = settings

    def read(self) -> _Stored:
        """What is stored for this server and address."""
        try:
            stored = msgspec.json.decode(self._path.read_bytes(), type=_Stored)
        except (OSError, msgspec.MsgspecError):
            return _Stored()
        return stored if stored.url == self._settings.url else _Stored()

    @property
    def expires_at(self) -> float:
        """When the stored token expires; 0 when that is not known."""
        return self.read().expires_at

    @contextlib.asynccontextmanager
    async def locked(self) -> AsyncGenerator[None]:
        """Hold the lock of the file, across processes."""
        lock = open_lock(self._path.with_suffix(".lock"))
        try:
            while not try_lock(lock):
                await asyncio.sleep(_LOCK_EVERY)
            yield
        finally:
            os.close(lock)

    def _write(self, stored: _Stored) -> None:
        stored.url = self._settings.url
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(self._path, msgspec.json.encode(stored).decode())
        self._path.chmod(0o600)

    # The four methods of the SDK's storage.

    async def get_tokens(self) -> OAuthToken | None:
        """The stored tokens."""
        tokens = self.read().tokens
        return OAuthToken.model_validate(tokens) if tokens else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens. An answer without a refresh token keeps the one that is known."""
        stored = self.read()
        kept = {key: stored.tokens[key] for key in ("refresh_token",) if key in stored.tokens}
        stored.tokens = {**kept, **tokens.model_dump(mode="json", exclude_none=True)}
        stored.expires_at = time.time() + tokens.expires_in if tokens.expires_in else 0
        self._write(stored)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The registration of this program: that of the settings, else the one that was made at the first sign-in."""
        oauth = self._settings.entry.oauth
        if oauth is not None and oauth.client_id:
            secret = self._settings.client_secret or None
            redirects = [AnyUrl(f"http://127.0.0.1:{oauth.redirect_port}/callback")]
            return OAuthClientInformationFull(
                client_id=oauth.client_id, client_secret=secret, redirect_uris=redirects, scope=oauth.scope or None
            )
        client = self.read().client
        return OAuthClientInformationFull.model_validate(client) if client else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the registration."""
        stored = self.read()
        stored.client = client_info.model_dump(mode="json", exclude_none=True)
        self._write(stored)


class FileLockedOAuth(OAuthClientProvider):
    """The SDK's OAuth with tokens that other processes may refresh too: the file is read before every request."""

    def __init__(
        self,
        settings: McpSettings,
        tokens: FileTokens,
        redirect_uri: str,
        *,
        show: Callable[[str], None] | None = None,
        receive: Callable[[], Any] | None = None,
    ) -> None:
        """``show`` and ``receive`` sign in with a browser; without them a missing token is an error at once."""
        self._tokens = tokens
        self._name = settings.name
        scope = settings.entry.oauth.scope if settings.entry.oauth else ""
        metadata = OAuthClientMetadata(client_name="Hermes", redirect_uris=[AnyUrl(redirect_uri)], scope=scope or None)

        self._can_sign_in = show is not None

        async def redirect(address: str) -> None:
            if show is None:
                raise self._unsigned()
            show(address)

        async def refuse() -> AuthorizationCodeResult:
            raise self._unsigned()

        super().__init__(settings.url, metadata, tokens, redirect, receive or refuse)

    def _unsigned(self) -> McpError:
        return McpError(f"it wants a sign-in; run: hermes mcp login {self._name}")

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        await self._load()
        if not self._can_sign_in and self.context.current_tokens is None:
            raise self._unsigned()
        if self._is_old() and self.context.can_refresh_token():
            async with self._tokens.locked():
                await self._load()  # another process may have done it
                if self._is_old() and self.context.can_refresh_token():
                    response = yield await self._refresh_token()
                    await self._handle_refresh_response(response)
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _load(self) -> None:
        await self._initialize()
        self.context.token_expiry_time = self._tokens.expires_at or None

    def _is_old(self) -> bool:
        expires_at = self.context.token_expiry_time
        return bool(expires_at and time.time() > expires_at - _EARLY) or not self.context.is_token_valid()


def run_auth(settings: McpSettings, home: Path) -> FileLockedOAuth:
    """OAuth for a run: tokens are refreshed, and a missing sign-in is an error that says what to do."""
    return FileLockedOAuth(settings, FileTokens(home, settings), "http://127.0.0.1:0/callback")


@contextlib.asynccontextmanager
async def sign_in_auth(
    settings: McpSettings, home: Path, show: Callable[[str], None]
) -> AsyncGenerator[FileLockedOAuth]:
    """OAuth for a sign-in: ``show`` is given the address to open, and the browser returns to this machine."""
    arrived: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readline()).decode("latin-1").split(" ")
        query = parse_qs(urlsplit(line[1] if len(line) > 1 else "").query)
        found = {key: values[0] for key, values in query.items()}
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + _PAGE)
        with contextlib.suppress(OSError):
            await writer.drain()
        writer.close()
        if arrived.done():
            return
        if "code" in found:
            code = AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))
            arrived.set_result(code)
        elif "error" in found:
            arrived.set_exception(McpError(f"the sign-in was refused: {found['error'][:200]}"))

    async def receive() -> AuthorizationCodeResult:
        return await asyncio.wait_for(arrived, _SIGN_IN_SECONDS)

    port = settings.entry.oauth.redirect_port if settings.entry.oauth else 0
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    async with server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/callback"
        yield FileLockedOAuth(settings, FileTokens(home, settings), address, show=show, receive=receive)
