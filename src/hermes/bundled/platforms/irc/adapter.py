"""The adapter of IRC: lines of the server as messages for the gateway, and answers as lines."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from datetime import datetime
from typing import Any

from hermes.surfaces.gateway.adapter import MessageEvent, PlatformConfig, PluginHttp, SendResult
from hermes.surfaces.gateway.platforms.receiving import ReceivingAdapter

from .connection import IrcConnection, IrcError
from .protocol import IrcLine, addressed, is_target, plain_text, without_markdown
from .settings import IrcSettings

#: Senders of messages that may still be answered by name.
_REMEMBERED = 500


class IrcAdapter(ReceivingAdapter[IrcSettings]):
    """One server. A channel is a group chat, a person a direct one."""

    label = "IRC"

    def __init__(self, config: PlatformConfig, settings: IrcSettings, http: PluginHttp | None = None) -> None:
        super().__init__(config, settings, http)
        self._connection: IrcConnection | None = None
        self._senders: OrderedDict[str, str] = OrderedDict()

    async def log_in(self) -> str:
        connection = IrcConnection(self._settings)
        await connection.open()
        self._connection = connection
        return f"connected to {self._settings.address} as {connection.nick}"

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close("bye")

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        connection = self._connection
        if connection is None:
            return SendResult(False, error="there is no connection", retryable=True, error_kind="transient")
        if not is_target(chat_id):
            return SendResult(False, error=f"{chat_id!r} is neither a channel nor a nick", error_kind="not_found")
        text = without_markdown(content)
        sender = self._senders.get(reply_to or "")
        if sender and connection.is_channel(chat_id):
            text = f"{sender}: {text}"
        try:
            lines = await connection.say(chat_id, text)
        except IrcError as error:
            return SendResult(False, error=str(error), error_kind="transient")
        if not lines:
            return SendResult(False, error="the message is empty", error_kind="bad_format")
        return SendResult(True, message_id=uuid.uuid4().hex)

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        connection = self._connection
        is_channel = connection.is_channel(chat_id) if connection else chat_id[:1] in "#&"
        return {"name": chat_id, "type": "group" if is_channel else "dm"}

    async def receive(self) -> None:
        while (connection := self._connection) is not None:
            event = self._event(connection, await connection.next_message())
            if event is not None:
                await self.handle_message(event)

    def _event(self, connection: IrcConnection, line: IrcLine) -> MessageEvent | None:
        """The message in a line, or ``None`` when it is not for us."""
        target, text = line.param(0), line.param(1)
        if text.startswith("\x01"):
            if not text.startswith("\x01ACTION "):
                return None
            action = text.removeprefix("\x01ACTION ").rstrip("\x01")
            text = f"* {line.nick} {action}"
        text = plain_text(text).strip()
        in_channel = connection.is_channel(target)
        if in_channel and self._settings.require_mention:
            said = addressed(text, connection.nick)
            if said is None:
                return None
            text = said
        user = self._identity(connection, line)
        if not text or not user:
            return None
        chat = connection.lower(target) if in_channel else line.nick
        message_id = line.tags.get("msgid") or uuid.uuid4().hex
        self._senders[message_id] = line.nick
        while len(self._senders) > _REMEMBERED:
            self._senders.popitem(last=False)
        source = self.build_source(
            chat,
            chat_name=target if in_channel else line.nick,
            chat_type="group" if in_channel else "dm",
            user_id=user,
            user_name=line.nick,
        )
        event = MessageEvent(text, source=source, message_id=message_id, raw_message=line)
        if (moment := _time(line.tags.get("time", ""))) is not None:
            event.timestamp = moment
        return event

    def _identity(self, connection: IrcConnection, line: IrcLine) -> str:
        """The id of a sender. Anyone can take a free nick; an account or a mask identifies more."""
        if self._settings.identity == "account":
            account = line.tags.get("account", "")
            if not account:
                self.log.debug("IRC: %s is not logged in to an account; the message is ignored", line.nick)
            return connection.lower(account)
        name = line.prefix if self._settings.identity == "mask" else line.nick
        return connection.lower(name)


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
