"""Messages of chat platforms as adapters and hooks see them: where one comes from, what it says, how sending ended.

The names and fields are those that published adapters use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar

_DASHES = (("——", "--"), ("—", "--"), ("–", "-"))  # noqa: RUF001  (what phones make of two hyphens)


class Platform(str):
    """The name of a platform, in lower case. ``value`` and ``name`` are there for code that expects an enum."""

    __slots__ = ()

    LOCAL: ClassVar[Platform]
    API_SERVER: ClassVar[Platform]
    DISCORD: ClassVar[Platform]
    EMAIL: ClassVar[Platform]
    IRC: ClassVar[Platform]
    MATRIX: ClassVar[Platform]
    SIGNAL: ClassVar[Platform]
    SLACK: ClassVar[Platform]
    SMS: ClassVar[Platform]
    TELEGRAM: ClassVar[Platform]
    WEBHOOK: ClassVar[Platform]
    WHATSAPP: ClassVar[Platform]

    def __new__(cls, value: str) -> Platform:
        name = str(value).strip().lower()
        if not name:
            raise ValueError("a platform needs a name")
        return super().__new__(cls, name)

    @property
    def value(self) -> str:
        return str.__str__(self)

    @property
    def name(self) -> str:
        return self.value.upper().replace("-", "_").replace(" ", "_")

    def __repr__(self) -> str:
        return f"Platform({self.value!r})"


for _name in [name for name in Platform.__annotations__ if name.isupper()]:
    setattr(Platform, _name, Platform(_name))


@dataclass
class HomeChannel:
    """The chat that messages without another recipient go to, such as those of scheduled work."""

    platform: Platform
    chat_id: str
    name: str = ""
    thread_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {"platform": str(self.platform), "chat_id": self.chat_id, "name": self.name, "thread_id": self.thread_id}


@dataclass
class PlatformConfig:
    """The settings of one platform, ``gateway.platforms.<name>``. What only its adapter understands is in ``extra``."""

    enabled: bool = False
    token: str | None = None
    api_key: str | None = None
    home_channel: HomeChannel | None = None
    reply_to_mode: str = "first"
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class SessionSource:
    """Who sent a message, and in which chat."""

    platform: Platform
    chat_id: str
    chat_name: str | None = None
    #: ``dm``, ``group``, ``channel`` or ``thread``.
    chat_type: str = "dm"
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None
    chat_topic: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    is_bot: bool = False
    scope_id: str | None = None
    guild_id: str | None = None
    parent_chat_id: str | None = None
    message_id: str | None = None
    role_authorized: bool = False
    profile: str | None = None

    def __post_init__(self) -> None:
        self.platform = Platform(self.platform)
        self.scope_id = self.guild_id = self.scope_id if self.scope_id is not None else self.guild_id

    @property
    def description(self) -> str:
        """The chat, for people."""
        chat = self.chat_name or self.chat_id
        where = f"DM with {self.user_name or self.user_id or 'user'}" if self.chat_type == "dm" else chat
        return f"{where}, thread: {self.thread_id}" if self.thread_id else where

    def to_dict(self) -> dict[str, Any]:
        """The fields that are set."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        found = {name: value for name, value in values.items() if value not in (None, False)}
        return {**found, "platform": self.platform.value}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SessionSource:
        return cls(**{name: value for name, value in data.items() if name in cls.__dataclass_fields__})


@dataclass
class DeliveryTarget:
    """Where something is delivered, as schedules write it: ``PLATFORM``, ``PLATFORM:CHAT`` or with ``:THREAD``."""

    platform: Platform
    #: ``None`` is the home channel of the platform.
    chat_id: str | None = None
    thread_id: str | None = None
    is_origin: bool = False
    is_explicit: bool = False

    @classmethod
    def parse(cls, target: str, origin: SessionSource | None = None) -> DeliveryTarget:
        """What ``target`` names; ``origin`` is the chat that asks, or nothing but this machine."""
        name, _, rest = target.strip().partition(":")
        if name.lower() == "origin" and origin is not None:
            return cls(origin.platform, origin.chat_id, origin.thread_id, is_origin=True)
        if name.lower() in ("", "origin"):
            return cls(Platform.LOCAL, is_origin=name.lower() == "origin")
        chat, _, thread = rest.partition(":")
        return cls(Platform(name), chat or None, thread or None, is_explicit=bool(chat))

    def to_string(self) -> str:
        """The text that ``parse`` reads."""
        if self.is_origin:
            return "origin"
        return ":".join(filter(None, (self.platform.value, self.chat_id, self.thread_id if self.chat_id else None)))


def neutralize_untrusted_inline_text(value: Any, *, max_chars: int = 240) -> str:
    """What others named themselves or something, on one line that cannot pass for a part of the prompt."""
    text = " ".join("".join(one if one.isprintable() else " " for one in str(value)).split())
    return text if not max_chars or len(text) <= max_chars else f"{text[: max_chars - 3]}..."


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
) -> str:
    """The key of the conversation that a message belongs to.

    A direct chat has one conversation for each of its threads. Members of a group have one each; those of a thread in
    a group share one.
    """
    parts = ["agent", profile or "main", str(source.platform)]
    if source.chat_type == "dm":
        parts += ["dm", source.chat_id or source.user_id or ""]
        return ":".join([*parts, source.thread_id] if source.thread_id else parts)
    parts += [source.chat_type, source.chat_id]
    if source.thread_id:
        parts.append(source.thread_id)
    per_user = thread_sessions_per_user if source.thread_id else group_sessions_per_user
    user = source.user_id_alt or source.user_id
    return ":".join([*parts, user] if per_user and user else parts)


def canonical_whatsapp_identifier(identifier: str) -> str:
    """The number in an id of WhatsApp."""
    return str(identifier or "").strip().removeprefix("+").partition("@")[0].partition(":")[0]


def expand_whatsapp_aliases(identifier: str) -> set[str]:
    """The forms of an id that mean the same user."""
    return {identifier, canonical_whatsapp_identifier(identifier)}


class MessageType(Enum):
    """The kind of an incoming message."""

    TEXT = "text"
    LOCATION = "location"
    PHOTO = "photo"
    VIDEO = "video"
    AUDIO = "audio"
    VOICE = "voice"
    DOCUMENT = "document"
    STICKER = "sticker"
    COMMAND = "command"


class EphemeralReply(str):
    """An answer that may be deleted after some seconds, on platforms that can."""

    __slots__ = ("ttl_seconds",)

    ttl_seconds: int | None

    def __new__(cls, text: str, ttl_seconds: int | None = None) -> EphemeralReply:
        made = super().__new__(cls, text)
        made.ttl_seconds = ttl_seconds
        return made


class ProcessingOutcome(Enum):
    """How the work on a message ended."""

    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


@dataclass
class MessageFile:
    """A file of an incoming message. The gateway reads it only when it has let the sender in."""

    name: str
    media_type: str
    #: Bytes, as the platform says; 0 when it does not.
    size: int
    #: Fetches the content. A file with more than the given number of bytes may be cut after them.
    read: Callable[[int], Awaitable[bytes]]


@dataclass
class MessageEvent:
    """An incoming message."""

    text: str
    message_type: MessageType = MessageType.TEXT
    source: SessionSource | None = None
    #: What the platform delivered, as it delivered it. It is not stored.
    raw_message: Any = None
    #: The platform's id of the message: the same id twice in a chat is one message.
    message_id: str | None = None
    platform_update_id: int | None = None
    #: Paths of files on this machine, and their media types.
    media_urls: list[str] = field(default_factory=list[str])
    media_types: list[str] = field(default_factory=list[str])
    #: Files that the gateway is to fetch: it stores them in the workspace of the conversation, as media.
    files: list[MessageFile] = field(default_factory=list[MessageFile])
    reply_to_message_id: str | None = None
    reply_to_text: str | None = None
    reply_to_author_id: str | None = None
    reply_to_author_name: str | None = None
    reply_to_is_own_message: bool = False
    prompt_response: dict[str, Any] | None = None
    auto_skill: str | list[str] | None = None
    #: Instructions for the chat that the message came from.
    channel_prompt: str | None = None
    #: What was said in the chat since the agent last answered.
    channel_context: str | None = None
    #: The gateway or its adapter made the message; no user sent it.
    internal: bool = False
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    timestamp: datetime = field(default_factory=datetime.now)

    def is_command(self) -> bool:
        """Whether it is a slash command."""
        return (self.text or "").lstrip().startswith("/")

    def get_command(self) -> str | None:
        """The name of the slash command, without what follows an ``@``; a path such as ``/etc/hosts`` is none."""
        words = (self.text or "").split(maxsplit=1)
        if not words or not words[0].startswith("/"):
            return None
        name = words[0][1:].lower().partition("@")[0]
        return None if "/" in name else name

    def get_command_args(self) -> str:
        """What follows the name of the slash command; the whole text of another message."""
        if not self.is_command():
            return self.text
        rest = self.text.split(maxsplit=1)[1:]
        args = rest[0] if rest else ""
        for dash, hyphens in _DASHES:
            args = args.replace(dash, hyphens)
        return args


@dataclass
class SendResult:
    """How sending a message ended."""

    success: bool
    message_id: str | None = None
    error: str | None = None
    raw_response: Any = None
    #: The message did not reach the platform, so that sending it again cannot double it.
    retryable: bool = False
    #: Seconds after which the platform accepts another attempt.
    retry_after: float | None = None
    continuation_message_ids: tuple[str, ...] = ()
    #: ``too_long``, ``bad_format``, ``forbidden``, ``not_found``, ``rate_limited``, ``transient`` or ``unknown``.
    error_kind: str | None = None
