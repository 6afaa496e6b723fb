"""The adapter of Slack: events over Socket Mode or the Events API, answers over the Web API."""

from __future__ import annotations

import contextlib
import inspect
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from hermes.surfaces.gateway.adapter import PlatformConfig, PluginHttp, SendResult, split_text
from hermes.surfaces.gateway.platforms.api import PlatformApi, PlatformApiError, as_object, as_objects, as_text
from hermes.surfaces.gateway.platforms.receiving import ReceivedFile, ReceivedMessage, ReceivingAdapter, send_pieces
from hermes.surfaces.gateway.platforms.server import PlatformRequest, PlatformResponse, PlatformServer
from hermes.surfaces.gateway.platforms.settings import tls_context

from .events import MAX_TEXT, is_signed, read_event, read_slash_command
from .settings import SlackSettings
from .websocket import WebSocket, WebSocketError

_MAX_BODY = 1_000_000
_MAX_NAMES = 1_000
#: Slack ends a connection now and then and says so; one after the other without a message is a fault.
_MOST_REFRESHES = 5


class SlackAdapter(ReceivingAdapter[SlackSettings]):
    """One app in one workspace. An event is acknowledged once the gateway has stored its message."""

    label = "Slack"
    SUPPORTS_MESSAGE_EDITING = True
    MAX_MESSAGE_LENGTH = MAX_TEXT

    def __init__(self, config: PlatformConfig, settings: SlackSettings, http: PluginHttp) -> None:
        super().__init__(config, settings)
        self._bot = SlackApi(http, settings, settings.bot_token)
        self._app = SlackApi(http, settings, settings.app_token)
        self._own_user = ""
        self._socket: WebSocket | None = None
        self._names: OrderedDict[str, str] = OrderedDict()
        self.server = PlatformServer(settings.host, settings.port, self._handle_request, max_body=_MAX_BODY)

    async def log_in(self) -> str:
        found = await self._bot.call("auth.test")
        self._own_user = str(found.get("user_id") or "")
        if self._settings.mode == "events":
            await self.server.start()
        else:
            self._socket = await self._open_socket()
        return f"connected as {found.get('user')} in {found.get('team')}"

    async def close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()
        await self.server.stop()

    # -- Socket Mode -------------------------------------------------------------------------------------------------

    async def _open_socket(self) -> WebSocket:
        answer = await self._app.call("apps.connections.open")
        url = str(answer.get("url"))
        if not url.startswith("wss://" if not self._settings.has_own_server else ("ws://", "wss://")):
            raise WebSocketError("apps.connections.open gave no address that begins with wss://")
        context = tls_context() if url.startswith("wss://") else None
        socket = await WebSocket.open(url, context)
        hello = _decode(await socket.receive())
        if hello.get("type") != "hello":
            await socket.close()
            raise WebSocketError("Slack did not say hello")
        return socket

    async def receive(self) -> None:
        refreshes = 0
        while self._socket is not None:
            envelope = _decode(await self._socket.receive())
            if envelope.get("type") == "disconnect":
                refreshes += 1
                if refreshes > _MOST_REFRESHES:
                    raise WebSocketError("Slack ends every connection at once")
                old, self._socket = self._socket, await self._open_socket()
                await old.close()
                continue
            if not isinstance(envelope.get("envelope_id"), str):
                continue
            refreshes = 0
            await self._take(str(envelope.get("type")), as_object(envelope.get("payload")))
            self._socket.send(msgspec.json.encode({"envelope_id": envelope["envelope_id"]}).decode())

    # -- Events API --------------------------------------------------------------------------------------------------

    async def _handle_request(self, request: PlatformRequest) -> PlatformResponse:
        if request.path != "/slack/events" or request.method != "POST":
            return PlatformResponse(404, {"error": "Slack sends its events to /slack/events"})
        if not is_signed(self._settings.signing_secret, request.headers, request.body, time.time()):
            self.log.warning("Slack: a request without Slack's signature was refused")
            return PlatformResponse(401, {"error": "the signature is wrong"})
        kind, payload = _read_request(request)
        if payload.get("type") == "url_verification":
            return PlatformResponse(200, str(payload.get("challenge"))[:1000])
        await self._take(kind, payload)
        return PlatformResponse(200, "")

    # -- what arrives ------------------------------------------------------------------------------------------------

    async def _take(self, kind: str, payload: dict[str, Any]) -> None:
        message: ReceivedMessage | None = None
        if kind == "events_api":
            message = read_event(payload, self._own_user, reply_in_thread=self._settings.reply_in_thread)
        elif kind == "slash_commands":
            message = read_slash_command(payload)
        elif kind == "interactive":
            await self._run_action(payload)
        if message is not None:
            await self.hand_over(replace(message, user_name=await self._name_of(message.user_id)))

    async def download(self, file: ReceivedFile, limit: int) -> bytes:
        return await self._bot.download(file.place, limit)

    async def _name_of(self, user: str) -> str:
        """The name of a user, or the id when the app may not look it up."""
        if user not in self._names:
            name = user
            with contextlib.suppress(PlatformApiError):
                fields = as_object((await self._bot.call("users.info", {"user": user})).get("user"))
                name = str(fields.get("real_name") or fields.get("name") or user)
            self._names[user] = name
            while len(self._names) > _MAX_NAMES:
                self._names.popitem(last=False)
        return self._names[user]

    async def _run_action(self, payload: dict[str, Any]) -> None:
        """Call the function that a plugin registered for a button or menu, for users who were let in."""
        user, channel = _id(payload.get("user")), _id(payload.get("channel"))
        gateway = self.gateway_runner
        source = self.build_source(channel, chat_type="group", user_id=user)
        if gateway is None or not user or not await self.lets_in(source):
            self.log.warning("Slack: a click of a user who was not let in is ignored")
            return
        offers = gateway.host.plugins.offers("slack_action_handler")
        for action in as_objects(payload.get("actions")):
            handler = next((offer.value for offer in reversed(offers) if _fits(action, offer.options["fields"])), None)
            if handler is not None:
                await self._call_handler(handler, payload, action, channel)

    async def _call_handler(self, handler: Any, body: dict[str, Any], action: dict[str, Any], channel: str) -> None:
        async def ack(*_args: Any, **_options: Any) -> None:
            """Accepted for handlers that call it: Slack has its acknowledgement anyhow."""

        async def say(text: str = "", **_options: Any) -> SendResult:
            return await self.send(channel, text)

        offered = {"ack": ack, "body": body, "action": action, "payload": action, "say": say}
        wanted = inspect.signature(handler).parameters
        takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in wanted.values())
        try:
            result = handler(**{name: value for name, value in offered.items() if takes_all or name in wanted})
            if inspect.isawaitable(result):
                await result
        except Exception:
            self.log.exception("Slack: the handler of %s failed", action.get("action_id"))

    # -- sending -----------------------------------------------------------------------------------------------------

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        thread = (metadata or {}).get("thread_id")

        async def send_piece(_index: int, piece: str) -> str:
            parameters = {"channel": chat_id, "markdown_text": piece, "thread_ts": thread}
            return str((await self._bot.call("chat.postMessage", parameters)).get("ts") or "")

        return await send_pieces(split_text(content, MAX_TEXT), send_piece)

    async def edit_message(self, chat_id: str, message_id: str, content: str, *, finalize: bool = False) -> SendResult:
        text = split_text(content, MAX_TEXT)[0]
        try:
            await self._bot.call("chat.update", {"channel": chat_id, "ts": message_id, "markdown_text": text})
        except PlatformApiError as error:
            return error.result()
        return SendResult(True, message_id)

    async def delete_message(self, chat_id: str, message_id: str) -> bool:
        try:
            await self._bot.call("chat.delete", {"channel": chat_id, "ts": message_id})
        except PlatformApiError:
            return False
        return True

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        channel = as_object((await self._bot.call("conversations.info", {"channel": chat_id})).get("channel"))
        return {"name": str(channel.get("name") or chat_id), "type": "dm" if channel.get("is_im") else "group"}


def _fits(action: Mapping[str, Any], wanted: Mapping[str, str | re.Pattern[str]]) -> bool:
    """Whether a click is one that a plugin registered for."""
    return all(
        value.search(str(action.get(name, ""))) is not None
        if isinstance(value, re.Pattern)
        else action.get(name) == value
        for name, value in wanted.items()
    )


def _decode(text: str | bytes) -> dict[str, Any]:
    try:
        found: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    return as_object(found)


def _id(value: object) -> str:
    return as_text(as_object(value).get("id"))


def _read_request(request: PlatformRequest) -> tuple[str, dict[str, Any]]:
    """The kind of a request, by the names of Socket Mode, and its payload. Commands and clicks arrive as forms."""
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        form = {name: values[0] for name, values in parse_qs(request.body.decode("utf-8", "replace")).items()}
        if "payload" in form:
            return "interactive", _decode(form["payload"])
        return "slash_commands", dict(form)
    return "events_api", _decode(request.body)


# -- the Web API ------------------------------------------------------------------------------------------------------

#: Errors that say that the token is no good.
_NO_ACCESS = frozenset(
    ("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type")
)
_KINDS = {
    "channel_not_found": "not_found",
    "message_not_found": "not_found",
    "user_not_found": "not_found",
    "is_archived": "forbidden",
    "not_in_channel": "forbidden",
    "restricted_action": "forbidden",
    "msg_too_long": "too_long",
    "ratelimited": "rate_limited",
    "rate_limited": "rate_limited",
}
#: Errors of Slack itself: it may have done what was asked.
_UNCLEAR = frozenset(("internal_error", "fatal_error", "service_unavailable", "request_timeout"))


class SlackApi:
    """The Web API with one of the app's tokens."""

    def __init__(self, http: PluginHttp, settings: SlackSettings, token: str) -> None:
        self._http = http
        self._settings = settings
        self._headers = {"authorization": f"Bearer {token}"}
        self._api = PlatformApi(http, settings.base_url, self._headers, allow_private=settings.has_own_server)

    async def call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call a method; its answer. Parameters that are ``None`` are left out. Raises ``PlatformApiError``."""
        given = {name: value for name, value in (parameters or {}).items() if value is not None}
        status, answer = await self._api.call("POST", f"/{method}", json=given, timeout=30)
        if answer.get("ok") is True:
            return answer
        error = str(answer.get("error") or f"status {status}")[:200]
        raise PlatformApiError(
            f"{method}: {error}",
            kind="unknown" if error in _UNCLEAR or status >= 500 else _KINDS.get(error, "bad_format"),
            status=401 if error in _NO_ACCESS else status,
            may_repeat=_KINDS.get(error) == "rate_limited",
        )

    async def download(self, url: str, limit: int) -> bytes:
        """The content of a file. The token goes to Slack only. Raises ``PlatformApiError``."""
        place, own = urlsplit(url), urlsplit(self._settings.base_url)
        is_slack = place.scheme == "https" and place.netloc.endswith(".slack.com")
        is_own = self._settings.has_own_server and (place.scheme, place.netloc) == (own.scheme, own.netloc)
        if not (is_slack or is_own):
            raise PlatformApiError("the address of a file is not one of Slack's")
        origin = f"{place.scheme}://{place.netloc}"
        files = PlatformApi(self._http, origin, self._headers, allow_private=self._settings.has_own_server)
        path = f"{place.path}?{place.query}" if place.query else place.path
        return await files.download(path, limit)
