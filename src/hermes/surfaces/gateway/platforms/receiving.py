"""Base of the adapters that ship with Hermes: checked settings, a login, and a task that receives until it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from hermes.base.errors import HermesError
from hermes.surfaces.gateway.adapter import (
    BasePlatformAdapter,
    MessageEvent,
    MessageFile,
    MessageType,
    PlatformConfig,
    SendResult,
    SessionSource,
    run_in_thread,
)
from hermes.surfaces.gateway.platforms.settings import PlatformSettings

if TYPE_CHECKING:
    from hermes.plugins.http import PluginHttp
    from hermes.surfaces.gateway.platforms.api import PlatformApiError

S = TypeVar("S", bound=PlatformSettings)


class ConnectionFailed(HermesError):
    """A platform could not be reached, or was lost. ``is_final`` when the same settings can only fail again."""

    def __init__(self, message: str, *, code: str = "connection_lost", is_final: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_final = is_final


@dataclass(frozen=True)
class ReceivedFile:
    """A file of a message, which is yet to be fetched."""

    name: str
    media_type: str
    size: int
    #: The id or the address by which the platform finds it.
    place: str


@dataclass(frozen=True)
class ReceivedMessage:
    """A message for us, whatever form the platform gives it."""

    chat_id: str
    user_id: str
    text: str
    message_id: str
    is_direct: bool
    thread_id: str = ""
    files: tuple[ReceivedFile, ...] = ()
    chat_name: str = ""
    user_name: str = ""
    #: The workspace of the chat, where a platform has several.
    scope_id: str = ""
    reply_to_id: str = ""
    reply_to_text: str = ""
    #: In seconds since the epoch; 0 when the platform does not say.
    sent_at: int = 0


class ReceivingAdapter(BasePlatformAdapter, Generic[S]):
    """An adapter that logs in and then receives in a task of its own. The gateway restarts it when that is lost."""

    #: The name of the platform in its log lines.
    label: ClassVar[str]

    def __init__(self, config: PlatformConfig, settings: S, http: PluginHttp | None = None) -> None:
        """``http`` is for platforms that are spoken to over it."""
        super().__init__(config, settings.platform)
        self._settings = settings
        self._receiving: asyncio.Task[None] | None = None
        self.log = logging.getLogger(f"hermes.platforms.{settings.platform}")

    # -- what a platform has of its own ---------------------------------------------------------------------------

    async def log_in(self) -> str:
        """Connect; the rest of the log line that says so. Raises ``ConnectionFailed``."""
        raise NotImplementedError

    async def receive(self) -> None:
        """Receive until the connection is lost, which raises. Returns where messages arrive by requests instead."""

    async def close(self) -> None:
        """Let go of what ``log_in`` opened, if it is still there."""

    async def download(self, file: ReceivedFile, limit: int) -> bytes:
        """The content of a file; one with more bytes than the limit may be cut after them."""
        raise NotImplementedError

    def explain(self, error: ConnectionFailed) -> str:
        """An error for a person to read."""
        return str(error)

    async def hand_over(self, message: ReceivedMessage, **more: Any) -> None:
        """Give a message to the gateway, which has stored it when this returns. ``more`` is for ``MessageEvent``."""
        source = self.build_source(
            message.chat_id,
            chat_name=message.chat_name or None,
            chat_type="dm" if message.is_direct else "group",
            user_id=message.user_id,
            user_name=message.user_name or message.user_id,
            thread_id=message.thread_id or None,
            scope_id=message.scope_id or None,
        )
        event = MessageEvent(
            message.text,
            MessageType.COMMAND if message.text.startswith("/") else MessageType.TEXT,
            source,
            message_id=message.message_id,
            reply_to_message_id=message.reply_to_id or None,
            reply_to_text=message.reply_to_text or None,
            files=[
                MessageFile(one.name, one.media_type, one.size, partial(self.download, one)) for one in message.files
            ],
            **more,
        )
        if message.sent_at:
            event.timestamp = datetime.fromtimestamp(message.sent_at, UTC)
        await self.handle_message(event)

    async def lets_in(self, source: SessionSource) -> bool:
        """Whether the gateway takes messages of this sender; with no gateway, everyone's are taken."""
        gateway = self.gateway_runner
        return gateway is None or await gateway.blocking(gateway.access.sender, source) is not None

    async def parse_apart(self, program: Path, arguments: Sequence[str], data: bytes) -> bytes:
        """What a parser of strangers' bytes prints, see ``run_parser``. The event loop does not wait for it."""
        from hermes.tools.terminal.parser_process import run_parser

        gateway = self.gateway_runner
        supervisor = None if gateway is None else gateway.host.runtime.processes.supervisor
        return await run_in_thread(lambda interrupt: run_parser(program, arguments, data, interrupt, supervisor))

    # -- what the gateway calls -----------------------------------------------------------------------------------

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        try:
            connected = await self.log_in()
        except ConnectionFailed as error:
            await self.close()
            self._set_fatal_error(error.code, self.explain(error), retryable=not error.is_final)
            return False
        self._mark_connected()
        self.log.info("%s: %s", self.label, connected)
        self._receiving = asyncio.create_task(self._receive_until_lost())
        return True

    async def disconnect(self) -> None:
        self._mark_disconnected()
        task, self._receiving = self._receiving, None
        # A task that lost its connection has its adapter disconnected, and must not wait for itself.
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.close()

    async def _receive_until_lost(self) -> None:
        try:
            await self.receive()
            return
        except ConnectionFailed as error:
            self._set_fatal_error(error.code, self.explain(error), retryable=not error.is_final)
        except Exception as error:
            self.log.exception("%s: a message could not be handed over", self.label)
            self._set_fatal_error("error", str(error), retryable=True)
        await self.close()
        await self._notify_fatal_error()


def abort_stream(writer: asyncio.StreamWriter) -> None:
    """Drop a connection without waiting, also one that is closed already."""
    # The TLS transport of Python 3.11.2 forgets its protocol when it is closed a second time, and fails here then.
    with contextlib.suppress(AttributeError):
        writer.transport.abort()


async def send_pieces(
    pieces: Iterable[str],
    send: Callable[[int, str], Awaitable[str]],
    *,
    may_repeat: Callable[[PlatformApiError, bool], bool] = lambda error, is_first: error.may_repeat and is_first,
) -> SendResult:
    """Send a text in pieces; ``send`` takes the number of a piece and gives its id.

    A text of which a part was sent is not sent again, unless the platform knows the pieces that it has.
    """
    from hermes.surfaces.gateway.platforms.api import PlatformApiError

    sent: list[str] = []
    for number, piece in enumerate(pieces):
        try:
            sent.append(await send(number, piece))
        except PlatformApiError as error:
            result = error.result()
            result.retryable = may_repeat(error, not sent)
            return result
    return SendResult(True, sent[0], continuation_message_ids=tuple(sent[1:]))
