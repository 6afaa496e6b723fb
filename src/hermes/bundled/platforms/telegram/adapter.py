"""The adapter of Telegram: long polling for messages, answers as HTML."""

from __future__ import annotations

from functools import partial
from typing import Any

from hermes.surfaces.gateway.adapter import PlatformConfig, PluginHttp, SendResult, split_text
from hermes.surfaces.gateway.platforms.api import PlatformApiError, as_object, polled
from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed, ReceivedFile, ReceivingAdapter, send_pieces

from .api import BotApi
from .formatting import to_html
from .settings import TelegramSettings
from .updates import MAX_TEXT, Bot, read_message, utf16_length


class TelegramAdapter(ReceivingAdapter[TelegramSettings]):
    """One bot. Updates are acknowledged by the next poll, once the gateway has stored their messages."""

    label = "Telegram"
    SUPPORTS_MESSAGE_EDITING = True
    MAX_MESSAGE_LENGTH = MAX_TEXT

    def __init__(self, config: PlatformConfig, settings: TelegramSettings, http: PluginHttp) -> None:
        super().__init__(config, settings)
        self._api = BotApi(http, settings)
        self._bot: Bot | None = None

    async def log_in(self) -> str:
        self._bot = await self._api.get_me()
        # With a webhook set, the updates would go there. Those that wait are kept.
        await self._api.call("deleteWebhook", {"drop_pending_updates": False})
        return f"connected as @{self._bot.username}"

    def explain(self, error: ConnectionFailed) -> str:
        if getattr(error, "status", 0) == 409:
            return "another program polls with the same token; end it, or make a bot of its own for each"
        return "Telegram does not know the token" if error.is_final else str(error)

    # -- receiving ---------------------------------------------------------------------------------------------------

    async def receive(self) -> None:
        assert self._bot is not None
        offset = 0
        while True:
            poll = partial(self._api.get_updates, offset, self._settings.poll_seconds)
            for update in await polled(poll, final=(409,)):
                message = read_message(update, self._bot, require_mention=self._settings.require_mention)
                if message is not None:
                    await self.hand_over(message, platform_update_id=update["update_id"])
                offset = max(offset, update["update_id"] + 1)

    async def download(self, file: ReceivedFile, limit: int) -> bytes:
        return await self._api.download(file.place, limit)

    # -- sending -----------------------------------------------------------------------------------------------------

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        thread = str((metadata or {}).get("thread_id") or "")
        parameters: dict[str, Any] = {
            "chat_id": chat_id,
            "message_thread_id": int(thread) if thread.isdecimal() else None,
        }
        is_group = chat_id.startswith("-")

        async def send_piece(index: int, piece: str) -> str:
            answered = reply_to if is_group and not index and str(reply_to or "").isdecimal() else None
            reply = {"message_id": int(answered), "allow_sending_without_reply": True} if answered else None
            return await self._send_formatted("sendMessage", piece, {**parameters, "reply_parameters": reply})

        return await send_pieces(split_text(content, MAX_TEXT, utf16_length), send_piece)

    async def _send_formatted(self, method: str, text: str, parameters: dict[str, Any]) -> str:
        """Send a text with formatting, or without when Telegram does not accept it; the id of the message."""
        try:
            found = await self._api.call(method, {**parameters, "text": to_html(text), "parse_mode": "HTML"})
        except PlatformApiError as error:
            if error.status != 400 or "entities" not in str(error):
                raise
            found = await self._api.call(method, {**parameters, "text": text})
        return str(as_object(found).get("message_id") or "")

    async def edit_message(self, chat_id: str, message_id: str, content: str, *, finalize: bool = False) -> SendResult:
        text = split_text(content, MAX_TEXT, utf16_length)[0]
        parameters: dict[str, Any] = {"chat_id": chat_id, "message_id": int(message_id)}
        try:
            await self._send_formatted("editMessageText", text, parameters)
        except PlatformApiError as error:
            if "message is not modified" not in str(error):
                return error.result()
        return SendResult(True, message_id)

    async def delete_message(self, chat_id: str, message_id: str) -> bool:
        try:
            return bool(await self._api.call("deleteMessage", {"chat_id": chat_id, "message_id": int(message_id)}))
        except PlatformApiError:
            return False

    async def send_typing(self, chat_id: str, metadata: dict[str, Any] | None = None) -> None:
        await self._api.call("sendChatAction", {"chat_id": chat_id, "action": "typing"})

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        chat = as_object(await self._api.call("getChat", {"chat_id": chat_id}))
        name = chat.get("title") or chat.get("username") or chat.get("first_name") or chat_id
        return {"name": str(name), "type": "dm" if chat.get("type") == "private" else "group"}
