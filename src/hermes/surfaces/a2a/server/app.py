"""The server put together: stores, turns of the agent, the SDK's routes, and access control in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncGenerator

from a2a.server.context import ServerCallContext
from a2a.server.routes import DefaultServerCallContextBuilder
from starlette.requests import Request
from starlette.routing import Router
from starlette.types import ASGIApp

from hermes.base.errors import JournalError
from hermes.base.http_server.principals import LOCAL, Principals
from hermes.base.http_server.rate_limits import TaskSlots
from hermes.host import Host
from hermes.service.dispatch.choose import make_dispatcher, runs_on_workers
from hermes.surfaces.a2a.card import REST_PATH, RPC_PATH, CardOptions, agent_card, card_routes
from hermes.surfaces.a2a.push import PushQueue
from hermes.surfaces.a2a.server.access.middleware import (
    ADMISSION,
    PRINCIPAL,
    AccessMiddleware,
    AccessPolicy,
    PrincipalUser,
)
from hermes.surfaces.a2a.server.content import INPUT_MODES, OUTPUT_MODES
from hermes.surfaces.a2a.server.entry import SURFACE, task_entry
from hermes.surfaces.a2a.server.handler import A2ARequestHandler
from hermes.surfaces.a2a.server.runner import TurnRunner
from hermes.surfaces.a2a.server.store.contexts import ContextSessions
from hermes.surfaces.a2a.server.store.takeover import old_files, take_over
from hermes.surfaces.a2a.server.store.tasks import JournalTaskStore
from hermes.surfaces.a2a.server.store.webhooks import JournalPushConfigStore
from hermes.surfaces.a2a.server.transports.compat import rest_routes, rpc_routes

log = logging.getLogger("hermes.a2a")

_SECONDS_BETWEEN_CHECKS = 1.0
#: How often the tasks of other servers are read, while anyone here follows them.
_SECONDS_BETWEEN_LOOKS = 0.25
#: Request headers with credentials, which are not passed on to the request handler.
_CREDENTIALS = ("authorization", "x-api-key", "cookie")


class A2AServer:
    """The agent of one host, served. Close it before the host."""

    def __init__(self, host: Host, base_url: str, principals: Principals, *, grpc_address: str = "") -> None:
        """``base_url`` and ``grpc_address``, when gRPC is served, are where others reach the server."""
        settings = host.config.a2a
        options = CardOptions(
            base_url=base_url,
            tools=host.tools_for(host.cwd, ""),
            input_modes=INPUT_MODES,
            output_modes=OUTPUT_MODES,
            grpc_address=grpc_address,
            push=True,
            needs_token=bool(principals),
            extended=bool(principals),
        )
        self.card = agent_card(options)
        self._is_closed = self._is_recovered = False
        host.runtime.guard.protect(*old_files(host.home))
        # Other servers see by it that this one lives, and continue its tasks when it does not.
        if host.runner.start():
            host.store.check_after_crash()
        take_over(host)
        is_shared = bool(host.config.journal.url)
        self._tasks = JournalTaskStore(host.store, host.runner.id, host.workers, is_shared=is_shared)
        self._tasks.delete_old(settings.keep_days)
        self._slots = TaskSlots(settings.max_tasks, settings.max_waiting, settings.max_tasks_of_caller)
        check = self._check_journal if runs_on_workers(host.config) else None
        self.policy = AccessPolicy(principals, settings, self._slots, check)
        self._contexts = ContextSessions(host, principals)
        # No platforms: each task that was left resumes its own turn.
        self._dispatcher = make_dispatcher(
            host, entries={SURFACE: task_entry(host)}, platforms=(), slots=settings.max_tasks
        )
        self._host = host
        self._runner = TurnRunner(host, self._contexts, self._tasks, self._slots, self._dispatcher)
        webhooks = JournalPushConfigStore(host.store, host.workers, is_shared=is_shared)
        self._push = PushQueue(webhooks, settings.push, os.environ, is_old=webhooks.is_old)
        self.handler = A2ARequestHandler(
            self._runner,
            self._tasks,
            self.card,
            agent_card(options, detailed=True) if principals else None,
            webhooks=webhooks,
            push=self._push,
        )
        self.max_body_bytes = settings.max_body_bytes
        self.app: ASGIApp = AccessMiddleware(self._router(), self.policy, self.max_body_bytes)

    def _router(self) -> Router:
        builder = CallContextBuilder()
        routes = [
            *rpc_routes(self.handler, RPC_PATH, builder),  # first, because most calls are for it
            *card_routes(self.card),
            *rest_routes(self.handler, REST_PATH, builder),
        ]
        return Router(routes, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Router) -> AsyncGenerator[None]:
        await self.recover()
        looking = asyncio.create_task(self._look_at_other_servers()) if self._tasks.is_shared else None
        try:
            yield
        finally:
            if looking is not None:
                looking.cancel()
            await self.aclose()

    async def _check_journal(self) -> None:
        """Raise ``JournalUnavailable`` while turns cannot be submitted."""
        await self._host.workers.run(
            lambda: self._host.store.read(lambda connection: connection.execute("SELECT 1").fetchone())
        )

    async def recover(self) -> None:
        """Continue the tasks that a killed server left, once. They end as they would have ended there."""
        if self._is_recovered:
            return
        self._is_recovered = True
        await self._runner.close_left_turns()  # before anything runs
        await self._host.workers.run(self._dispatcher.start)
        count = await self._continue_left()
        if count:
            log.warning("%d tasks were running when the last server ended; they continue", count)

    async def _continue_left(self) -> int:
        """Continue the tasks whose server is gone; how many there were."""
        dead = await self._dead_servers()
        left = [one for one in await self._tasks.not_ended() if not one.runner or one.runner in dead]
        named = self.policy.principals.named
        calls = [(one, ServerCallContext(user=PrincipalUser(named(one.owner)))) for one in left]
        return sum([await self.handler.recover(one, call) for one, call in calls])

    async def _dead_servers(self) -> list[str]:
        servers, runner = await self._tasks.other_servers(), self._host.runner
        return await self._host.workers.run(lambda: [one for one in servers if not runner.is_alive(one)])

    async def stop_turns(self) -> None:
        """Refuse new tasks and interrupt the running ones."""
        self._slots.is_closing = True
        await self.handler.stop()

    async def aclose(self) -> None:
        """Stop all turns and close the stores, once."""
        if self._is_closed:
            return
        self._is_closed = True
        await self.stop_turns()
        await self.handler.aclose()
        self._runner.close()
        await asyncio.to_thread(self._dispatcher.release, 0.0)
        await self._push.aclose()
        await asyncio.to_thread(self._tasks.flush)

    async def _look_at_other_servers(self) -> None:
        """Follow the tasks of other servers closely, and look once a second what became of those servers."""
        checked_at = time.monotonic()
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            try:
                await self.handler.follow_others()
                if time.monotonic() - checked_at >= _SECONDS_BETWEEN_CHECKS:
                    checked_at = time.monotonic()
                    await self.handler.give_up_taken()
                    if await self._dead_servers():
                        await self._continue_left()
            except Exception as error:
                is_known = isinstance(error, JournalError)
                log.warning("stored tasks cannot be looked at: %s", error, exc_info=None if is_known else error)


class CallContextBuilder(DefaultServerCallContextBuilder):
    """The call context of a request: its principal, and its headers without credentials."""

    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        headers: dict[str, str] = context.state["headers"]
        for name in _CREDENTIALS:
            headers.pop(name, None)
        context.state[ADMISSION] = request.scope.get(ADMISSION)
        return context

    def build_user(self, request: Request) -> PrincipalUser:
        return PrincipalUser(request.scope.get(PRINCIPAL, LOCAL))
