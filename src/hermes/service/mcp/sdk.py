"""The SDK's side of a connection: opens its client over a transport, and reads what the server offers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

import mcp_types as types
from mcp import Client, MCPError

from hermes.base.version import __version__
from hermes.service.mcp.manifest import Manifest, ManifestPrompt, ManifestTool

if TYPE_CHECKING:
    from mcp.client._transport import Transport

    from hermes.service.mcp.callbacks.server_callbacks import ServerCallbacks

#: Pages of one list that are read; a server that never ends its list is cut off.
_MAX_PAGES = 100
_MAX_TOOLS = 1_000
_MAX_PROMPTS = 200
_MAX_DESCRIPTION = 2_000
_MAX_INSTRUCTIONS = 2_000

_LIST_CHANGES = (types.ToolListChangedNotification, types.PromptListChangedNotification)

# The SDK logs whole tracebacks of what servers do wrong. What matters of it is in our own errors.
logging.getLogger("mcp").setLevel(logging.CRITICAL)
logging.getLogger("client").setLevel(logging.CRITICAL)


@contextlib.asynccontextmanager
async def open_client(
    transport: Transport, *, callbacks: ServerCallbacks, on_list_changed: Callable[[], None]
) -> AsyncGenerator[Client]:
    """The SDK's client over a transport, in the newest protocol that both sides speak."""

    async def on_message(message: object) -> None:
        if isinstance(message, _LIST_CHANGES):
            on_list_changed()

    client = Client(
        transport,
        sampling_callback=callbacks.sampling if callbacks.can_sample else None,
        elicitation_callback=callbacks.elicitation if callbacks.can_elicit else None,
        list_roots_callback=callbacks.roots if callbacks.has_roots else None,
        message_handler=on_message,
        client_info=types.Implementation(name="hermes", version=__version__),
        cache=None,
    )
    async with client:
        listening = asyncio.create_task(_listen(client, on_list_changed))
        try:
            yield client
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def _listen(client: Client, on_list_changed: Callable[[], None]) -> None:
    """Follow the changes of lists in the newer protocol; the older one sends them by itself."""
    capabilities = client.server_capabilities
    if not (capabilities.tools and capabilities.tools.list_changed):
        return
    with contextlib.suppress(Exception):
        async with client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
            async for _ in changes:
                on_list_changed()


async def read_manifest(client: Client, digest: str) -> Manifest:
    """What the server offers now."""
    info, offers = client.server_info, client.server_capabilities
    return Manifest(
        digest=digest,
        server="" if info is None else plain_text(f"{info.name} {info.version}".strip())[:200],
        protocol=str(client.protocol_version),
        instructions=plain_text(client.instructions or "")[:_MAX_INSTRUCTIONS],
        tools=await _tools(client),
        prompts=await _prompts(client) if offers.prompts else [],
        has_resources=offers.resources is not None and await _has_resources(client),
    )


async def _tools(client: Client) -> list[ManifestTool]:
    found: dict[str, ManifestTool] = {}
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                break  # a server of resources or prompts only
            raise
        for tool in page.tools[: _MAX_TOOLS - len(found)]:
            found.setdefault(tool.name, _manifest_tool(tool))
        cursor = page.next_cursor
        if cursor is None or len(found) >= _MAX_TOOLS:
            break
    return list(found.values())


def _manifest_tool(tool: types.Tool) -> ManifestTool:
    hints = tool.annotations
    read_only = hints is not None and hints.read_only_hint is True
    return ManifestTool(
        name=tool.name,
        description=plain_text(tool.description or tool.title or "")[:_MAX_DESCRIPTION],
        parameters=tool.input_schema,
        read_only=read_only,
        idempotent=read_only or (hints is not None and hints.idempotent_hint is True),
        needs_task=tool.execution is not None and tool.execution.task_support == "required",
    )


async def _prompts(client: Client) -> list[ManifestPrompt]:
    try:
        page = await client.list_prompts()
    except MCPError:
        return []
    return [
        ManifestPrompt(
            name=prompt.name,
            description=plain_text(prompt.description or prompt.title or "")[:_MAX_DESCRIPTION],
            arguments=[item.name if item.required else f"{item.name}?" for item in prompt.arguments or ()],
        )
        for prompt in page.prompts[:_MAX_PROMPTS]
    ]


async def _has_resources(client: Client) -> bool:
    """Whether there is any: some servers declare resources and have none."""
    with contextlib.suppress(MCPError):
        if (await client.list_resources()).resources:
            return True
        return bool((await client.list_resource_templates()).resource_templates)
    return False


def plain_text(text: str) -> str:
    """A text of a server without characters that a person would not see, which could carry hidden instructions."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable())
