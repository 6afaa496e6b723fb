"""Requests of an MCP server to its client while a call runs: for a model's answer, the user's answer, the folder."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import mcp_types as types
import msgspec
from pydantic import FileUrl

from hermes.base.errors import HermesError, Interrupted
from hermes.base.http.threads import run_in_thread
from hermes.service.mcp.callbacks.elicitation import FormAnswer, ask_form
from hermes.service.mcp.errors import McpError
from hermes.service.mcp.sdk import plain_text

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext

    from hermes.base.config.schema.mcp import McpServerConfig
    from hermes.base.scope import Interrupt, Scope
    from hermes.contract.llm import PluginLlmCompleteResult
    from hermes.service.mcp.environment import ClientEnvironment

_calling: ContextVar[Scope | None] = ContextVar("mcp_calling", default=None)


class ServerCallbacks:
    """The requests of one server. Its coroutines run on the loop of the client."""

    def __init__(self, server: str, entry: McpServerConfig, environment: ClientEnvironment) -> None:
        self._server = server
        self._entry = entry
        #: Whether the server gets the folder of the run, which for some replaces the folders of their arguments.
        self.has_roots = entry.roots
        self._environment = environment
        #: The calls that run on the server now.
        self._running: list[Scope] = []

    @property
    def can_sample(self) -> bool:
        """Whether the server may ask a model."""
        return self._entry.sampling.enabled and self._environment.sampling is not None

    @property
    def can_elicit(self) -> bool:
        """Whether the server may ask the user."""
        return self._entry.elicitation.enabled and self._environment.responders is not None

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
        cwd = self._environment.cwd
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(cwd.as_uri()), name=cwd.name)])

    async def sampling(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        """An answer of a model, paid from the budget of the server."""
        scope, models = self.caller(), self._environment.sampling
        if scope is None or models is None:
            return _refused("it is not clear for which call the model is asked")
        if params.tools:
            return _refused("a model with tools is not offered")
        try:
            messages = _messages(params)
            wishes = [hint.name for hint in (params.model_preferences and params.model_preferences.hints) or ()]

            def ask(interrupt: Interrupt) -> PluginLlmCompleteResult:
                return models.ask(
                    self._server,
                    self._entry,
                    msgspec.structs.replace(scope, interrupt=interrupt),
                    messages,
                    max_tokens=params.max_tokens,
                    temperature=params.temperature,
                    wishes=[wish for wish in wishes if wish],
                )

            answer = await run_in_thread(ask, scope.interrupt)
        except (HermesError, ValueError, PermissionError, Interrupted) as error:
            return _refused(self._environment.redactor.redact(str(error)))
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=answer.text),
            model=answer.model,
            stop_reason="endTurn",
        )

    async def elicitation(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """An answer of the user, asked on the surface that the running call is for."""
        scope = self.caller()
        responders = self._environment.responders
        responder = None if scope is None or responders is None else responders.get(scope.session_id)
        if scope is None or responder is None or not isinstance(params, types.ElicitRequestFormParams):
            return types.ElicitResult(action="decline")
        schema: dict[str, Any] = params.requested_schema

        def ask(interrupt: Interrupt) -> FormAnswer:
            return ask_form(self._server, plain_text(params.message), schema, responder, interrupt)

        try:
            async with asyncio.timeout(self._entry.elicitation.timeout):
                values = await run_in_thread(ask, scope.interrupt)
        except (TimeoutError, Interrupted):
            return types.ElicitResult(action="cancel")
        if values is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=values)


def _messages(params: types.CreateMessageRequestParams) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if params.system_prompt:
        messages.append({"role": "system", "content": params.system_prompt})
    for message in params.messages:
        blocks: list[Any] = list(message.content) if isinstance(message.content, list) else [message.content]
        messages.append({"role": message.role, "content": [_content_part(block) for block in blocks]})
    return messages


def _content_part(block: Any) -> dict[str, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    if block.type == "image":
        return {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
    raise McpError(f"a message with {block.type} cannot be given to a model here")


def _refused(message: str) -> types.ErrorData:
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)
