"""The adapter of Telegram: long polling of the Bot API for messages, answers as HTML."""

from __future__ import annotations

from functools import partial
from typing import Any, cast
from urllib.parse import quote

from hermes.surfaces.gateway.adapter import PlatformConfig, PluginHttp, SendResult, split_text
from hermes.surfaces.gateway.platforms.api import PlatformApi, PlatformApiError, as_object, as_objects, polled
from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed, ReceivedFile, ReceivingAdapter, send_pieces

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


_KINDS = {400: "bad_format", 403: "forbidden", 404: "not_found", 429: "rate_limited"}


class BotApi:
    """One bot. Errors have what Telegram says, never the address, which has the token in it."""

    def __init__(self, http: PluginHttp, settings: TelegramSettings) -> None:
        self._files = PlatformApi(
            http, f"{settings.base_url}/file/bot{settings.bot_token}", allow_private=settings.has_own_server
        )
        self._api = PlatformApi(
            http, f"{settings.base_url}/bot{settings.bot_token}", allow_private=settings.has_own_server
        )

    async def call(self, method: str, parameters: dict[str, Any] | None = None, *, seconds: float = 30.0) -> Any:
        """Call a method; its result. Parameters that are ``None`` are left out. Raises ``PlatformApiError``."""
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        status, answer = await self._api.call("POST", f"/{method}", json=given, timeout=seconds)
        if status == 200 and answer.get("ok") is True:
            return answer.get("result")
        code = answer.get("error_code")
        status = code if isinstance(code, int) else status
        pause = as_object(answer.get("parameters")).get("retry_after")
        raise PlatformApiError(
            f"{method}: {str(answer.get('description'))[:300]} (status {status})",
            kind=_KINDS.get(status, "transient" if status >= 500 else "unknown"),
            # Telegram answers with an error when it did nothing, except when it failed itself.
            may_repeat=status == 429,
            status=status,
            refusals=(401, 404),
            retry_after=float(pause) if isinstance(pause, int | float) else None,
        )

    async def download(self, file_id: str, limit: int) -> bytes:
        """The content of a file. Raises ``PlatformApiError``."""
        found = await self.call("getFile", {"file_id": file_id})
        path = as_object(found).get("file_path")
        # A server of one's own may give a path on its machine, which is none of ours.
        if not isinstance(path, str) or path.startswith("/") or ".." in path.split("/"):
            raise PlatformApiError("getFile: the answer has no path of a file")
        return await self._files.download(f"/{quote(path)}", limit)

    async def get_me(self) -> Bot:
        """Who we are."""
        fields = as_object(await self.call("getMe"))
        if not isinstance(fields.get("id"), int) or not isinstance(fields.get("username"), str):
            raise PlatformApiError("getMe: the answer names no bot")
        return Bot(fields["id"], fields["username"])

    async def get_updates(self, offset: int, seconds: float) -> list[dict[str, Any]]:
        """The updates from ``offset`` on, waiting for one at most so long. Those before it are acknowledged."""
        parameters = {"offset": offset or None, "timeout": int(seconds), "allowed_updates": ["message"]}
        found = await self.call("getUpdates", parameters, seconds=seconds + 20)
        if not isinstance(found, list):
            raise PlatformApiError("getUpdates: the answer is not a list")
        return [one for one in as_objects(cast("object", found)) if isinstance(one.get("update_id"), int)]
