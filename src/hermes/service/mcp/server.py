"""One MCP server of a host: its manifest, its connection, and calls to it from threads that wait."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hermes.base.config.principals import principal_home
from hermes.service.mcp.errors import CallLost, McpError
from hermes.service.mcp.settings import McpSettings, entry_digest, resolve_entry
from hermes.tools.results import tool_error, tool_result

if TYPE_CHECKING:
    from concurrent.futures import Future

    from mcp import Client

    from hermes.base.config.schema.mcp import McpServerConfig
    from hermes.service.mcp.callbacks.server_callbacks import ServerCallbacks
    from hermes.service.mcp.connection import Opening, ServerConnection
    from hermes.service.mcp.environment import ClientEnvironment
    from hermes.service.mcp.manifest import Manifest
    from hermes.service.mcp.tools.results import ResultWriter
    from hermes.tools.registry import Args, ToolContext

T = TypeVar("T")

_UNKNOWN = "It may or may not have taken effect: check before you repeat it."


class McpServer:
    """A server by its name. Thread-safe."""

    def __init__(
        self,
        name: str,
        entry: McpServerConfig,
        environment: ClientEnvironment,
        on_manifest: Callable[[McpServer, Manifest], None],
    ) -> None:
        self.name = name
        self.entry = entry
        self.digest = entry_digest(entry)
        self.manifest: Manifest | None = None
        self._environment = environment
        self._callbacks: ServerCallbacks | None = None
        self._on_manifest = on_manifest

    @cached_property
    def connection(self) -> ServerConnection:
        """Its connection. Made for the first call: a server that is not used needs no event loop."""
        from hermes.service.mcp.connection import ServerConnection

        entry, lifecycle = self.entry, self.entry.lifecycle
        return ServerConnection(
            self.name,
            self._open,
            connect_timeout=entry.connect_timeout,
            idle_timeout=entry.idle_timeout_seconds or (lifecycle.idle_timeout_seconds if lifecycle else 0),
            max_lifetime=entry.max_lifetime_seconds or (lifecycle.max_lifetime_seconds if lifecycle else 0),
            keepalive=entry.keepalive_interval if entry.url else 0,
            read_manifest=self._read_manifest,
            on_manifest=lambda manifest: self._on_manifest(self, manifest),
        )

    @property
    def was_used(self) -> bool:
        """Whether it has a connection."""
        return "connection" in self.__dict__

    def settings(self) -> McpSettings:
        """Its settings, checked and filled in. ``McpError`` says what is wrong with them."""
        return resolve_entry(self.name, self.entry, self._environment.environ)

    # -- calls --------------------------------------------------------------------------------------------------

    def call_tool(self, tool: str, args: Args, context: ToolContext, *, repeatable: bool) -> str:
        """Call a tool. A call that was lost is sent again only when it is ``repeatable``."""
        timeout = self.entry.timeout

        async def work(client: Client) -> str:
            answer = await client.call_tool(tool, args, read_timeout_seconds=timeout)
            return self._writer(context).call(answer)

        return self._result(work, context, repeatable=repeatable)

    def list_resources(self, _args: Args, context: ToolContext) -> str:
        """The resources of the server, and the templates of those that have parameters."""

        async def work(client: Client) -> str:
            from mcp import MCPError

            found = await client.list_resources()
            try:
                templates = (await client.list_resource_templates()).resource_templates
            except MCPError:
                templates = []
            rows: list[dict[str, Any]] = [
                _resource_row(item.uri, item.name, item.description) for item in found.resources
            ]
            rows += [_resource_row(item.uri_template, item.name, item.description) for item in templates]
            return tool_result(resources=rows)

        return self._result(work, context, repeatable=True)

    def read_resource(self, args: Args, context: ToolContext) -> str:
        """The content of a resource."""

        async def work(client: Client) -> str:
            return self._writer(context).resource(await client.read_resource(str(args["uri"])))

        return self._result(work, context, repeatable=True)

    def list_prompts(self, _args: Args, context: ToolContext) -> str:
        """The prompts of the server."""

        async def work(client: Client) -> str:
            manifest = await self._read_manifest(client)
            rows = [{"name": p.name, "description": p.description, "arguments": p.arguments} for p in manifest.prompts]
            return tool_result(prompts=rows)

        return self._result(work, context, repeatable=True)

    def get_prompt(self, args: Args, context: ToolContext) -> str:
        """A prompt, filled in."""
        given: dict[str, Any] = args.get("arguments") or {}
        arguments = {name: str(value) for name, value in given.items()}

        async def work(client: Client) -> str:
            return self._writer(context).prompt(await client.get_prompt(str(args["name"]), arguments))

        return self._result(work, context, repeatable=True)

    def _writer(self, context: ToolContext) -> ResultWriter:
        from hermes.service.mcp.tools.results import ResultWriter

        folder = principal_home(self._environment.home, context.scope.principal) / "images"
        return ResultWriter(folder, context.limits.max_output_chars)

    def _result(self, work: Callable[[Client], Awaitable[str]], context: ToolContext, *, repeatable: bool) -> str:
        try:
            return self._wait(work, context, again=repeatable)
        except CallLost as lost:
            kind = "tool_timeout" if lost.timed_out else "unknown_outcome"
            extra = {} if repeatable else {"outcome": "unknown"}
            message = f"{lost}." if repeatable else f"{lost}. {_UNKNOWN}"
            return tool_error(self._masked(message), error_type=kind, **extra)
        except McpError as error:
            return tool_error(self._masked(str(error)), error_type="mcp_error")

    def _wait(self, work: Callable[[Client], Awaitable[str]], context: ToolContext, *, again: bool) -> str:
        async def called() -> str:
            async def one(client: Client) -> str:
                assert self._callbacks is not None
                with self._callbacks.calling(context.scope):
                    return await work(client)

            try:
                return await self.connection.use(one)
            except CallLost as lost:
                if not again or lost.timed_out:
                    raise
                return await self.connection.use(one)

        return self._environment.loop.wait(called(), context.scope.interrupt)

    def _masked(self, text: str) -> str:
        return self._environment.redactor.redact(text)

    # -- life ---------------------------------------------------------------------------------------------------

    def start(self) -> Future[Client]:
        """Start it, without waiting. What it offers is published when it has answered."""
        return self._environment.loop.submit(self.connection.open())

    def run(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run work with its client, for commands."""
        return self._environment.loop.submit(self.connection.use(work)).result()

    async def _read_manifest(self, client: Client) -> Manifest:
        from hermes.service.mcp.sdk import read_manifest

        return await read_manifest(client, self.digest)

    @contextlib.asynccontextmanager
    async def _open(self, opening: Opening) -> AsyncGenerator[Client]:
        settings = self.settings()
        self._environment.redactor.add_secrets(settings.secrets())
        try:
            if settings.transport == "stdio":
                opening.process = self._start_process(settings)
            from hermes.service.mcp.callbacks.server_callbacks import ServerCallbacks
            from hermes.service.mcp.sdk import open_client

            self._environment.sdk_loaded_at = self._environment.sdk_loaded_at or time.monotonic()
        except BaseException as error:
            if opening.process is not None:
                await opening.process.stop()
            if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("hermes"):
                raise McpError(
                    f"MCP servers need the package {error.name}, which is not installed; "
                    f"install it with: hermes install mcp"
                ) from None
            raise
        self._callbacks = ServerCallbacks(self.name, self.entry, self._environment)
        changed = self.connection.list_changed
        async with contextlib.AsyncExitStack() as stack:
            transport = await self._transport(settings, opening, stack)
            open_ = open_client(transport, callbacks=self._callbacks, on_list_changed=changed)
            yield await stack.enter_async_context(open_)

    def _start_process(self, settings: McpSettings) -> Any:
        from hermes.service.mcp.transport.stdio import StdioProcess
        from hermes.service.mcp.transport.suspicious import check_command

        environment = self._environment
        folder = Path(self.entry.cwd).expanduser() if self.entry.cwd else environment.cwd
        check_command(self.name, settings.command, cwd=environment.cwd / folder, hermes_home=environment.home)
        confinement = environment.confinements.of_mcp_server(
            folder, settings.env, sandboxed=self.entry.sandbox, environ=environment.environ
        )
        return StdioProcess(settings.command, str(environment.cwd / folder), confinement, environment.supervisor)

    async def _transport(self, settings: McpSettings, opening: Opening, stack: contextlib.AsyncExitStack) -> Any:
        if opening.process is not None:
            return opening.process.connect(opening.ended)
        from hermes.service.mcp.transport.http import http_transport

        auth = None
        if self.entry.auth == "oauth":
            from hermes.service.mcp.transport.oauth import run_auth, sign_in_auth

            environment = self._environment
            if environment.show_address is None:
                auth = run_auth(settings, environment.home)
            else:
                signing_in = sign_in_auth(settings, environment.home, environment.show_address)
                auth = await stack.enter_async_context(signing_in)
        return http_transport(settings, auth)


def _resource_row(uri: object, name: str, description: str | None) -> dict[str, Any]:
    row = {"uri": str(uri), "name": name}
    return {**row, "description": description} if description else row
