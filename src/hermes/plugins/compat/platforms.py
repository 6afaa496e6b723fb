# ruff: noqa: B027  (what a platform need not do has nothing to do here)
"""Platform adapters: the base class of a connection to a chat platform, and what a plugin registers for one.

An adapter gives every message that arrives to ``handle_message``, which returns once the message is stored. The
gateway runs the turn and calls ``send`` with the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from hermes.hooks.copies import isolate
from hermes.plugins.compat.messages import (
    HomeChannel,
    MessageEvent,
    Platform,
    PlatformConfig,
    ProcessingOutcome,
    SendResult,
    SessionSource,
)

if TYPE_CHECKING:
    from hermes.base.config.schema.gateway import GatewayPlatformConfig
    from hermes.plugins.compat.names import Names
    from hermes.plugins.registry import ProviderOffer
    from hermes.plugins.services import PluginHost

log = logging.getLogger("hermes.gateway")

#: Stores a message, or answers it at once.
MessageHandler = Callable[[MessageEvent], Awaitable[str | None]]
#: Runs the turn of a message and delivers its answer.
TurnRunner = Callable[[MessageEvent, str], Awaitable[ProcessingOutcome]]
FatalErrorHandler = Callable[["BasePlatformAdapter"], Awaitable[None] | None]

#: Seconds between two typing indicators of a chat.
TYPING_SECONDS = 5.0


#: Most characters of one message, where an adapter does not say it.
_USUAL_LENGTH = 4_096


class BasePlatformAdapter(ABC):
    """One connection to a chat platform. All of its methods run on the event loop of the gateway."""

    #: Whether ``edit_message`` works.
    SUPPORTS_MESSAGE_EDITING = False
    REQUIRES_EDIT_FINALIZE = False
    #: Most characters of one message; 0 means no limit. What ``register_platform`` says comes first.
    MAX_MESSAGE_LENGTH: int = 0
    #: Whether ``send`` wants ``metadata["idempotency_key"]``, which is the same for every attempt to send a message.
    TAKES_IDEMPOTENCY_KEY = False

    def __init__(self, config: PlatformConfig, platform: Platform | str) -> None:
        self.config = config
        self.platform = Platform(platform)
        self._message_handler: MessageHandler | None = None
        self._turn_runner: TurnRunner | None = None
        self._fatal_error_handler: FatalErrorHandler | None = None
        self._session_store: Any = None
        #: The gateway, once it runs the adapter.
        self.gateway_runner: Any = None
        self._running = False
        self._fatal_error_code: str | None = None
        self._fatal_error_message: str | None = None
        self._fatal_error_retryable = True

    # -- the platform's part ------------------------------------------------------------------------------------

    @abstractmethod
    async def connect(self, *, is_reconnect: bool = False) -> bool:
        """Connect and begin to receive. False, or an exception, is a failure, and the gateway tries again later."""

    @abstractmethod
    async def disconnect(self) -> None:
        """Disconnect. May be called more than once, and after a failed ``connect``."""

    @abstractmethod
    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        """Send a message to a chat. ``metadata`` may have a ``thread_id``.

        An exception, or a failure without ``retryable``, means that the message may have arrived: it is not sent again.
        """

    @abstractmethod
    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        """The ``name`` and ``type`` of a chat."""

    async def edit_message(self, chat_id: str, message_id: str, content: str, *, finalize: bool = False) -> SendResult:
        """Replace the text of a message."""
        return SendResult(False, error="this platform cannot edit messages")

    async def delete_message(self, chat_id: str, message_id: str) -> bool:
        """Take back a message. False when the platform cannot."""
        return False

    async def send_typing(self, chat_id: str, metadata: dict[str, Any] | None = None) -> None:
        """Show that an answer is being written. Called again every few seconds."""

    async def stop_typing(self, chat_id: str) -> None:
        """Stop showing it."""

    async def send_image(
        self,
        chat_id: str,
        image_url: str,
        caption: str | None = None,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        """Send an image by its address; by default the address as text."""
        text = f"{caption}\n{image_url}" if caption else image_url
        return await self.send(chat_id, text, reply_to=reply_to, metadata=metadata)

    async def send_image_file(
        self, chat_id: str, image_path: str, caption: str | None = None, reply_to: str | None = None, **options: Any
    ) -> SendResult:
        """Send an image that is a file here; by default as a document."""
        return await self.send_document(chat_id, image_path, caption, reply_to=reply_to, **options)

    async def send_document(
        self,
        chat_id: str,
        file_path: str,
        caption: str | None = None,
        file_name: str | None = None,
        reply_to: str | None = None,
        **options: Any,
    ) -> SendResult:
        """Send a file; by default only its caption and its name, because a path of this machine helps no one else."""
        name = file_name or file_path.rpartition("/")[2]
        return await self.send(chat_id, f"{caption}\n{name}" if caption else name, reply_to=reply_to)

    async def send_voice(self, chat_id: str, audio_path: str, **options: Any) -> SendResult:
        """Send speech; by default as a document."""
        return await self.send_document(chat_id, audio_path, **options)

    async def send_video(self, chat_id: str, video_path: str, **options: Any) -> SendResult:
        """Send a video; by default as a document."""
        return await self.send_document(chat_id, video_path, **options)

    async def send_multiple_images(
        self, chat_id: str, images: Sequence[tuple[str, str]], metadata: dict[str, Any] | None = None, **_: Any
    ) -> list[SendResult]:
        """Send images, each an address and a caption."""
        return [await self.send_image(chat_id, url, caption or None, metadata=metadata) for url, caption in images]

    async def send_clarify(
        self,
        chat_id: str,
        question: str,
        choices: Sequence[str] | None,
        clarify_id: str = "",
        session_key: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        """Ask a question of the model. The next message in the chat is the answer."""
        lines = [question, *(f"{number}. {choice}" for number, choice in enumerate(choices or (), 1))]
        if choices:
            lines.append("Answer with a number or in your own words.")
        return await self.send(chat_id, "\n".join(lines), metadata=metadata)

    async def send_exec_approval(
        self,
        chat_id: str,
        command: str,
        session_key: str,
        description: str = "dangerous command",
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        """Ask whether a tool call may run. The answer is ``/approve`` or ``/deny``."""
        return await self.send(chat_id, approval_text(command, description), metadata=metadata)

    def format_message(self, content: str) -> str:
        """The text as the platform writes it."""
        return content

    async def on_processing_start(self, event: MessageEvent) -> None:
        """The turn of a message begins."""

    async def on_processing_complete(self, event: MessageEvent, outcome: ProcessingOutcome) -> None:
        """The turn of a message has ended, and its answer was sent as far as it could be."""

    # -- what adapters use --------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the platform, for people."""
        return self.platform.value.title()

    @property
    def is_connected(self) -> bool:
        return self._running

    @property
    def has_fatal_error(self) -> bool:
        return self._fatal_error_message is not None

    @property
    def fatal_error_code(self) -> str | None:
        return self._fatal_error_code

    @property
    def fatal_error_message(self) -> str | None:
        return self._fatal_error_message

    @property
    def fatal_error_retryable(self) -> bool:
        """Whether connecting again may help."""
        return self._fatal_error_retryable

    def build_source(
        self,
        chat_id: str,
        chat_name: str | None = None,
        chat_type: str = "dm",
        user_id: str | None = None,
        user_name: str | None = None,
        thread_id: str | None = None,
        **more: Any,
    ) -> SessionSource:
        """The source of a message of this platform. ``more`` are further fields of ``SessionSource``."""
        fields: dict[str, Any] = {
            "platform": self.platform,
            "chat_id": str(chat_id),
            "chat_name": chat_name,
            "chat_type": chat_type,
            "user_id": None if user_id is None else str(user_id),
            "user_name": user_name,
            "thread_id": None if thread_id is None else str(thread_id),
            **more,
        }
        return SessionSource.from_dict(fields)

    async def handle_message(self, event: MessageEvent) -> None:
        """Pass on a message that arrived. When this returns, the message is stored and may be acknowledged."""
        if self._message_handler is None:
            raise RuntimeError(f"the adapter of {self.platform} is not run by a gateway")
        answer = await self._message_handler(event)
        if answer and event.source is not None:
            await self.send(event.source.chat_id, answer, reply_to=event.message_id)

    @property
    def message_len_fn(self) -> Callable[[str], int]:
        """Measures a message as the platform does."""
        return len

    def message_len_fn_for_chat(self, _chat_id: str) -> Callable[[str], int]:
        """The same for one chat."""
        return self.message_len_fn

    def max_message_length_for_chat(self, _chat_id: str) -> int:
        """Most characters of one message to a chat."""
        return self.MAX_MESSAGE_LENGTH or _USUAL_LENGTH

    @staticmethod
    def truncate_message(content: str, max_length: int = 4096, len_fn: Callable[[str], int] | None = None) -> list[str]:
        """The text in pieces of at most ``max_length``, cut where a paragraph, a line or a word ends."""
        return split_text(content, max_length, len_fn or len)

    def _mark_connected(self) -> None:
        self._running = True
        self._fatal_error_code = self._fatal_error_message = None
        self._fatal_error_retryable = True

    def _mark_disconnected(self) -> None:
        self._running = False

    def _set_fatal_error(self, code: str, message: str, *, retryable: bool) -> None:
        """The connection is lost for this reason."""
        self._running = False
        self._fatal_error_code, self._fatal_error_message = code, message
        self._fatal_error_retryable = retryable

    async def _notify_fatal_error(self) -> None:
        """Let the gateway restart the adapter."""
        if self._fatal_error_handler is not None:
            waiting = self._fatal_error_handler(self)
            if inspect.isawaitable(waiting):
                await waiting

    def _acquire_platform_lock(self, scope: str, identity: str, resource_desc: str) -> bool:
        """Whether the identity is free. One gateway runs for a home, so that it is."""
        return True

    def _release_platform_lock(self) -> None:
        """Give the identity back."""

    # -- what the gateway uses ----------------------------------------------------------------------------------

    def set_message_handler(self, handler: MessageHandler) -> None:
        """Set what receives messages."""
        self._message_handler = handler

    def set_turn_runner(self, runner: TurnRunner) -> None:
        """Set what runs the turn of a message."""
        self._turn_runner = runner

    def set_fatal_error_handler(self, handler: FatalErrorHandler) -> None:
        """Set what hears of a lost connection."""
        self._fatal_error_handler = handler

    def set_session_store(self, session_store: Any) -> None:
        """Set the sessions of the gateway."""
        self._session_store = session_store

    def set_busy_session_handler(self, handler: Any) -> None:
        """Accepted for adapters that call it; the gateway itself decides about messages that arrive during a turn."""

    async def _send_with_retry(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: Any = None, **_: Any
    ) -> SendResult:
        """Send a finished message. The gateway calls this; it tries again by itself, as the result says."""
        return await self.send(chat_id, content, reply_to=reply_to, metadata=metadata)

    async def _process_message_background(self, event: MessageEvent, session_key: str) -> None:
        """The work on one message, from its turn's beginning until its answer is sent."""
        assert self._turn_runner is not None
        await self.on_processing_start(event)
        chat = "" if event.source is None else event.source.chat_id
        typing = asyncio.create_task(self._keep_typing(chat)) if self._shows_typing() else None
        outcome = ProcessingOutcome.FAILURE
        try:
            outcome = await self._turn_runner(event, session_key)
        except asyncio.CancelledError:
            outcome = ProcessingOutcome.CANCELLED
            raise
        finally:
            if typing is not None:
                typing.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await typing
            await self.on_processing_complete(event, outcome)

    def _shows_typing(self) -> bool:
        return type(self).send_typing is not BasePlatformAdapter.send_typing

    async def _keep_typing(self, chat_id: str, interval: float = TYPING_SECONDS, **_: Any) -> None:
        try:
            while True:
                await self.send_typing(chat_id)
                await asyncio.sleep(interval)
        except Exception as error:
            log.debug("%s: the typing indicator failed: %s", self.platform, error)
        finally:
            with contextlib.suppress(Exception):
                await self.stop_typing(chat_id)

    async def cancel_session_processing(self, session_key: str, **_: Any) -> None:
        """Interrupt the turn that runs in a conversation."""
        if self.gateway_runner is not None:
            self.gateway_runner.interrupt(session_key)

    async def interrupt_session_activity(self, session_key: str, chat_id: str = "") -> None:
        """Interrupt the turn that runs in a conversation."""
        await self.cancel_session_processing(session_key)

    async def cancel_background_tasks(self) -> None:
        """Accepted for adapters that call it; the gateway ends its own tasks."""


def approval_text(command: str, description: str) -> str:
    """The question whether a tool call may run."""
    answers = "Answer /approve, /approve session, /approve always or /deny."
    return f"May this run? {description}\n\n{quoted(command)}\n\n{answers}"


def quoted(command: str) -> str:
    """A command of several lines with a mark before each, so that none of them looks like a line of the question."""
    return "\n".join(f"> {line}" for line in command.split("\n")) if "\n" in command else command


def split_text(content: str, limit: int, length: Callable[[str], int] = len) -> list[str]:
    """Pieces of at most ``limit``, cut where a paragraph, a line or a word ends, else anywhere."""
    pieces: list[str] = []
    rest = content
    while limit > 0 and length(rest) > limit:
        most = _longest_beginning(rest, limit, length)
        at = max((found for mark in ("\n\n", "\n", " ") if (found := rest.rfind(mark, most // 2, most)) > 0), default=0)
        cut = at or most
        pieces.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip("\n ") if at else rest[cut:]
    return [*pieces, rest] if rest or not pieces else pieces


def _longest_beginning(text: str, limit: int, length: Callable[[str], int]) -> int:
    low, high = 1, min(len(text), limit)
    if length(text[:high]) <= limit:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if length(text[:middle]) <= limit else (low, middle - 1)
    return low


# -- registration ----------------------------------------------------------------------------------------------------


@dataclass
class PlatformEntry:
    """A platform as a plugin registers it with ``ctx.register_platform``."""

    name: str
    label: str
    #: ``adapter_factory(config)`` makes the adapter.
    adapter_factory: Callable[[PlatformConfig], Any]
    #: Whether what it needs is installed, found out without side effects.
    check_fn: Callable[[], Any]
    #: Whether the settings are complete.
    validate_config: Callable[[Any], Any] | None = None
    ensure_deps_fn: Callable[[], Any] | None = None
    is_connected: Callable[[Any], Any] | None = None
    required_env: list[str] = field(default_factory=list[str])
    install_hint: str = ""
    setup_fn: Callable[[], Any] | None = None
    source: str = "plugin"
    plugin_name: str = ""
    #: Variable with the ids of users that may use the agent, separated by commas; and one that lets in everyone.
    allowed_users_env: str = ""
    allow_all_env: str = ""
    max_message_length: int = 0
    pii_safe: bool = False
    emoji: str = "🔌"
    allow_update_command: bool = True
    #: Instructions for the model about the platform.
    platform_hint: str = ""
    #: Settings taken from the environment, or None when it has none.
    env_enablement_fn: Callable[[], Any] | None = None
    apply_yaml_config_fn: Callable[[dict[str, Any], dict[str, Any]], Any] | None = None
    #: Variable with the chat that scheduled work is delivered to.
    cron_deliver_env_var: str = ""
    parse_target_ref_fn: Callable[[str], Any] | None = None
    validate_target_ref_fn: Callable[[str], Any] | None = None
    send_message_handler: Callable[..., Any] | None = None
    standalone_sender_fn: Callable[..., Any] | None = None


def entry_of(offer: ProviderOffer) -> PlatformEntry:
    """What a plugin registered. Options that other hosts know are left out."""
    known = {one.name for one in fields(PlatformEntry)}
    for name in offer.options.keys() - known:
        log.debug("plugin %r: platform %r: the option %r is not used", offer.plugin, offer.name, name)
    options: dict[str, Any] = {name: value for name, value in offer.options.items() if name in known}
    options |= {"name": offer.name.lower(), "adapter_factory": offer.value}
    return PlatformEntry(**options)


def adapter_config(name: str, settings: GatewayPlatformConfig) -> PlatformConfig:
    """The settings of a platform as its adapter gets them."""
    home = settings.home_channel
    return PlatformConfig(
        enabled=settings.enabled,
        token=settings.token or None,
        api_key=settings.api_key or None,
        home_channel=HomeChannel(Platform(name), home, home) if home else None,
        extra=isolate(settings.extra),
    )


class PlatformRegistry:
    """The platforms that the plugins of one host registered."""

    def __init__(self, host: PluginHost) -> None:
        self._host = host

    def get(self, name: str) -> PlatformEntry | None:
        """The platform of that name; of two, the one registered last."""
        found = [entry for entry in self.all_entries() if entry.name == str(name).lower()]
        return found[-1] if found else None

    def is_registered(self, name: str) -> bool:
        return self.get(name) is not None

    def all_entries(self) -> list[PlatformEntry]:
        """All of them, in the order they were registered."""
        return [entry_of(offer) for offer in self._host.plugins.offers("platform")]

    plugin_entries = all_entries

    def create_adapter(self, name: str, config: PlatformConfig) -> BasePlatformAdapter | None:
        """A new adapter, or None when there is no such platform or what it needs is missing."""
        entry = self.get(name)
        return entry.adapter_factory(config) if entry is not None and entry.check_fn() else None


# -- the names that published adapters import ------------------------------------------------------------------------


def config(host: PluginHost) -> Names:
    """``gateway.config``."""

    def load_gateway_config() -> Any:
        """The settings of all platforms, as ``.platforms`` by name."""
        from types import SimpleNamespace

        from hermes.plugins.compat.names import config_of

        found = config_of(host)
        named = {} if found is None else found.gateway.platforms
        return SimpleNamespace(platforms={Platform(name): adapter_config(name, one) for name, one in named.items()})

    return {"load_gateway_config": load_gateway_config}


def run(host: PluginHost) -> Names:
    """``gateway.run``."""

    def gateway_runner() -> Any:
        """The gateway that runs on this host, or None."""
        return host.plugins.gateway

    return {"_gateway_runner_ref": gateway_runner}
