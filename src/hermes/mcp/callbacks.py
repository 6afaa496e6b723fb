"""Requests of an MCP server to its client while a call runs: for a model's answer, the user's answer, the folder."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

import mcp_types as types

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext

    from hermes.config.mcp_sections import McpServerConfig
    from hermes.scope import Scope

_calling: ContextVar[Scope | None] = ContextVar("mcp_calling", default=None)


class ServerCallbacks:
    """The requests of one server. Its coroutines run on the loop of the client."""

    def __init__(self, server: str, entry: McpServerConfig, cwd: Path) -> None:
        self._server = server
        self._entry = entry
        self._cwd = cwd
        #: The calls that run on the server now.
        self._running: list[Scope] = []

    @property
    def can_sample(self) -> bool:
        """Whether the server may ask a model."""
        return False

    @property
    def can_elicit(self) -> bool:
        """Whether the server may ask the user."""
        return False

    @contextmanager
    def calling(self, scope: Scope) -> Generator[None]:
        """A call of that scope runs on the server."""
        self._running.append(scope)
        token = _calling.set(scope)
        try:
            yield
        finally:
            _calling.reset(token)
            self._running.remove(scope)

    def caller(self) -> Scope | None:
        """The call that a request of the server belongs to; None when that cannot be told."""
        scope = _calling.get()
        if scope is not None:
            return scope
        sessions = {scope.session_id for scope in self._running}
        return self._running[-1] if len(sessions) == 1 else None

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """The folder that the run works in."""
        return types.ListRootsResult(roots=[types.Root(uri=self._cwd.as_uri(), name=self._cwd.name)])  # pyright: ignore[reportArgumentType]

    async def sampling(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """An answer of a model."""
        return types.ErrorData(code=types.INVALID_REQUEST, message="sampling is off")

    async def elicitation(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """An answer of the user."""
        return types.ElicitResult(action="decline")
