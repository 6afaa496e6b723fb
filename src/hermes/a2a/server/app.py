"""Puts the server together: stores, conversations, the SDK's handler and its routes, behind one gate."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from a2a.server.context import ServerCallContext
from a2a.server.routes import (
    DefaultServerCallContextBuilder,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.types import SendMessageConfiguration, SendMessageRequest
from starlette.requests import Request
from starlette.routing import Router
from starlette.types import ASGIApp

from hermes.a2a.card import REST_PATH, RPC_PATH, Served, agent_card, card_routes
from hermes.a2a.push.sender import PushQueue
from hermes.a2a.server.access.middleware import PRINCIPAL, Door, Gate
from hermes.a2a.server.access.principals import LOCAL, Peer, Principal, Principals
from hermes.a2a.server.access.rate_limits import Load
from hermes.a2a.server.content import INPUT_MODES
from hermes.a2a.server.direct import KEYS, DirectMessages
from hermes.a2a.server.handler import Requests
from hermes.a2a.server.runner import TurnExecutor
from hermes.a2a.server.store.contexts import Conversations
from hermes.a2a.server.store.database import Database
from hermes.a2a.server.store.questions import Question, Questions, timeout_message
from hermes.a2a.server.store.tasks import SqliteTaskStore, sweep
from hermes.a2a.server.store.webhooks import SqlitePushConfigStore
from hermes.host import Host

log = logging.getLogger("hermes.a2a")

_SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """How others reach the server."""

    base_url: str
    #: host:port of the gRPC transport, when it is served.
    grpc: str = ""


class A2AServer:
    """The agent of one host, served. Close it before the host."""

    def __init__(
        self, host: Host, address: Address, principals: Principals, env: Mapping[str, str] = os.environ
    ) -> None:
        settings = host.config.a2a
        served = Served(
            base_url=address.base_url,
            tools=host.offered_tools(),
            input_modes=INPUT_MODES,
            grpc_address=address.grpc,
            push=True,
            needs_token=bool(principals),
            extended=True,
        )
        self.card = agent_card(served)
        self._is_closed = False
        self.database = Database(host.home / "a2a.db")
        host.runtime.guard.protect(*self.database.files())
        closed = sweep(self.database, settings.keep_days)
        if closed:
            log.warning("%d tasks were left at work by a server that ended; they have failed", closed)
        self._load = Load(settings)
        self.door = Door(principals, settings, self._load)
        self._questions = Questions(self.database)
        conversations = Conversations(host, self.database)
        self.turns = TurnExecutor(host, conversations, self._questions, self._load)
        webhooks = SqlitePushConfigStore(self.database)
        self._push = PushQueue(webhooks, settings.push, env)
        self.requests = Requests(
            self.turns,
            SqliteTaskStore(self.database),
            self.card,
            agent_card(served, detailed=True),
            webhooks=webhooks,
            push=self._push,
            may_push_to=self._push.accepts,
        )
        self.max_body_bytes = settings.max_body_bytes
        direct = DirectMessages(self._routes(), self.requests)
        self.app: ASGIApp = Gate(direct, self.door, self.max_body_bytes)

    def _routes(self) -> Router:
        builder = CallContexts()
        routes = [
            *card_routes(self.card),
            *create_jsonrpc_routes(self.requests, RPC_PATH, builder, enable_v0_3_compat=True),
            *create_rest_routes(self.requests, builder, enable_v0_3_compat=True, path_prefix=REST_PATH),
        ]
        return Router(routes, lifespan=self._life)

    @contextlib.asynccontextmanager
    async def _life(self, _app: Router) -> AsyncGenerator[None]:
        clock = asyncio.create_task(self._watch_deadlines())
        try:
            yield
        finally:
            clock.cancel()
            await self.aclose()

    async def aclose(self) -> None:
        """Stop what is at work and close the stores, once."""
        if self._is_closed:
            return
        self._is_closed = True
        await self.turns.stop()
        await self.requests.aclose()
        await self._push.aclose()
        self.database.close()

    async def _watch_deadlines(self) -> None:
        """Answer what nobody answers in time, and let the turns go on."""
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            for question in self._questions.overdue():
                try:
                    await self._give_up(question)
                except Exception:
                    log.exception("task %s cannot go on without an answer", question.task_id)
                    await self._questions.close(question.task_id)

    async def _give_up(self, question: Question) -> None:
        caller = ServerCallContext(user=Peer(Principal(question.owner)))
        # It goes the way of every answer, so that those who watch the task see how it goes on.
        await self.requests.on_message_send(
            SendMessageRequest(
                message=timeout_message(question), configuration=SendMessageConfiguration(return_immediately=True)
            ),
            caller,
        )


class CallContexts(DefaultServerCallContextBuilder):
    """What the SDK is told of a request: who sent it, and its headers without what opened the door."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        headers: dict[str, str] = context.state["headers"]
        for name in KEYS:
            headers.pop(name, None)
        return context

    def build_user(self, request: Request) -> Peer:
        return Peer(request.scope.get(PRINCIPAL, LOCAL))
