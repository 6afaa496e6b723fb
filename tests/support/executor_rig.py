"""Requests to an A2A executor and the events that come of them, with the types of whichever SDK is installed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import a2a.types
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue

from hermes.surfaces.a2a import HermesA2AExecutor
from hermes.surfaces.a2a.executor.executor import part_text

types: Any = a2a.types
#: The SDK speaks protobuf; before it was pydantic.
IS_V1 = hasattr(types, "SendMessageRequest") and hasattr(types.TaskState, "TASK_STATE_CANCELED")


class Events(EventQueue):
    """Keeps what an executor says."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Any] = []

    async def enqueue_event(self, event: Any) -> None:
        self.said.append(event)

    @property
    def reply(self) -> str:
        """The text of the one message that was said."""
        (message,) = self.said
        assert isinstance(message, types.Message)
        assert message.role == (types.Role.ROLE_AGENT if IS_V1 else types.Role.agent)
        (part,) = message.parts
        return part_text(part)


def text_part(text: str) -> Any:
    return types.Part(text=text) if IS_V1 else types.Part(root=types.TextPart(text=text))


def data_part(data: dict[str, Any]) -> Any:
    if not IS_V1:
        return types.Part(root=types.DataPart(data=data))
    part = types.Part()
    part.data.struct_value.update(data)
    return part


def request(
    *parts: Any, task_id: str = "task-1", context_id: str = "context-1", task: Any = None, message: bool = True
) -> RequestContext:
    """The context of a message with these parts; strings stand for text parts."""
    made = [text_part(part) if isinstance(part, str) else part for part in parts]
    params: Any = None
    if message:
        role = types.Role.ROLE_USER if IS_V1 else types.Role.user
        said = types.Message(message_id="message-1", role=role, parts=made)
        kind = types.SendMessageRequest if IS_V1 else types.MessageSendParams
        params = kind(message=said)
    return RequestContext(
        call_context=ServerCallContext(), request=params, task_id=task_id, context_id=context_id, task=task
    )


def ask(executor: HermesA2AExecutor, *parts: Any) -> str:
    """What the executor answers, in a loop that complains about everything."""

    async def turn() -> str:
        events = Events()
        try:
            await executor.execute(request(*parts), events)
        finally:
            await executor.aclose()
        return events.reply

    return asyncio.run(turn(), debug=True)


class Answering:
    """A client of the OpenAI shape that keeps what it is asked.

    ``answer`` is what it answers, an exception to raise, or a coroutine function that does either.
    """

    def __init__(self, answer: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self._answer = answer
        self.chat = SimpleNamespace(completions=self)

    async def create(self, **kwargs: Any) -> Any:
        self.asked.append(kwargs)
        if isinstance(self._answer, BaseException):
            raise self._answer
        return await self._answer(**kwargs) if inspect.iscoroutinefunction(self._answer) else self._answer


def completion(content: str | None = None, tool_calls: Sequence[Any] | None = None, **more: Any) -> SimpleNamespace:
    """An answer with nothing in its message but what is given."""
    message = SimpleNamespace(content=content, tool_calls=tool_calls, **more)
    return SimpleNamespace(choices=[SimpleNamespace(message=message)])


class SilentModel:
    """Takes requests, answers none, and knows when its callers hang up."""

    def __init__(self) -> None:
        self.base_url = ""
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.gone: asyncio.Queue[str] = asyncio.Queue()

    async def attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = (await reader.readexactly(length)).decode()
        self.asked.put_nowait(body)
        await reader.read()
        self.gone.put_nowait(body)
        writer.close()


@asynccontextmanager
async def silent_model() -> AsyncGenerator[SilentModel]:
    model = SilentModel()
    server = await asyncio.start_server(model.attend, "127.0.0.1", 0)
    model.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield model
    finally:
        server.close()
        await server.wait_closed()
