"""The adapter of Matrix: long polling with /sync, answers with a transaction id that the server recognises."""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from hermes.surfaces.gateway.adapter import PlatformConfig, PluginHttp, SendResult, split_text, write_private_document
from hermes.surfaces.gateway.platforms.api import PlatformApi, PlatformApiError, as_object, as_objects, polled
from hermes.surfaces.gateway.platforms.receiving import ReceivedFile, ReceivingAdapter, send_pieces

from .events import read_event
from .settings import MatrixSettings

MAX_TEXT = 16_000


class MatrixAdapter(ReceivingAdapter[MatrixSettings]):
    """One account. The place in the stream of events is stored once the gateway has stored the messages before it."""

    label = "Matrix"
    SUPPORTS_MESSAGE_EDITING = True
    TAKES_IDEMPOTENCY_KEY = True
    MAX_MESSAGE_LENGTH = MAX_TEXT

    def __init__(self, config: PlatformConfig, settings: MatrixSettings, http: PluginHttp) -> None:
        super().__init__(config, settings)
        headers = {"authorization": f"Bearer {settings.access_token}"}
        self._api = PlatformApi(http, f"{settings.homeserver}/_matrix/client/v3", headers, allow_private=True)
        self._media = PlatformApi(http, f"{settings.homeserver}/_matrix/client/v1", headers, allow_private=True)
        self._own_user = ""
        self._since = ""
        self._members: dict[str, int] = {}
        self._encrypted: set[str] = set()

    async def log_in(self) -> str:
        self._own_user = str((await self._call("GET", "/account/whoami")).get("user_id"))
        self._since = self._stored_place() or await self._present()
        return f"connected as {self._own_user}"

    # -- receiving ---------------------------------------------------------------------------------------------------

    async def _present(self) -> str:
        """The place in the stream where it is now: what was said before we came is not answered."""
        return str((await self._sync("", 0)).get("next_batch"))

    async def receive(self) -> None:
        await self._join_invited((await self._sync("", 0)).get("rooms"))
        while True:
            found = await polled(partial(self._sync, self._since, self._settings.poll_seconds))
            rooms = as_object(found.get("rooms"))
            await self._join_invited(rooms)
            for room, content in as_object(rooms.get("join")).items():
                await self._read_room(room, as_object(content))
            self._since = str(found.get("next_batch"))
            self._store_place(self._since)

    async def _sync(self, since: str, seconds: float) -> dict[str, Any]:
        query = {"timeout": str(int(seconds * 1000)), **({"since": since} if since else {})}
        if not since:
            query["filter"] = '{"room":{"timeline":{"limit":0}}}'
        return await self._call("GET", "/sync", query=query, timeout=seconds + 20)

    async def _join_invited(self, rooms: object) -> None:
        for room, content in as_object(as_object(rooms).get("invite")).items():
            events = as_objects(as_object(as_object(content).get("invite_state")).get("events"))
            inviter = next(
                (
                    str(event.get("sender"))
                    for event in events
                    if event.get("type") == "m.room.member" and event.get("state_key") == self._own_user
                ),
                "",
            )
            if inviter in self._settings.invites_from:
                await self._call("POST", f"/join/{quote(room, safe='')}", json={})
            else:
                self.log.info("Matrix: an invitation of %s is not accepted", inviter)

    async def _read_room(self, room: str, content: dict[str, Any]) -> None:
        for event in as_objects(as_object(content.get("timeline")).get("events")):
            if event.get("type") == "m.room.member":
                self._members.pop(room, None)
            if event.get("type") == "m.room.encrypted" and room not in self._encrypted:
                self._encrypted.add(room)
                self.log.warning("Matrix: %s is encrypted, which this platform cannot read", room)
            is_direct = await self._member_count(room) <= 2 if event.get("type") == "m.room.message" else False
            require_mention = self._settings.require_mention
            message = read_event(room, event, self._own_user, is_direct=is_direct, require_mention=require_mention)
            if message is not None:
                await self.hand_over(message)

    async def download(self, file: ReceivedFile, limit: int) -> bytes:
        return await self._media.download(file.place, limit)

    async def _member_count(self, room: str) -> int:
        if room not in self._members:
            found = await self._call("GET", f"/rooms/{quote(room, safe='')}/joined_members")
            self._members[room] = len(as_object(found.get("joined")))
        return self._members[room]

    # -- the place in the stream -------------------------------------------------------------------------------------

    def _place_file(self) -> Path | None:
        home: object = getattr(getattr(self.gateway_runner, "host", None), "home", None)
        if not isinstance(home, Path):
            return None
        name = hashlib.sha256(f"{self._settings.homeserver} {self._own_user}".encode()).hexdigest()[:16]
        return home / "gateway" / f"matrix-{name}.json"

    def _stored_place(self) -> str:
        path = self._place_file()
        try:
            found: object = msgspec.json.decode(path.read_bytes()) if path is not None else None
        except (OSError, msgspec.DecodeError):
            found = None
        return str(as_object(found).get("since") or "")

    def _store_place(self, since: str) -> None:
        path = self._place_file()
        if path is not None:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_private_document(path, {"since": since})

    # -- sending -----------------------------------------------------------------------------------------------------

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        thread, key = (metadata or {}).get("thread_id"), (metadata or {}).get("idempotency_key")

        async def send_piece(index: int, piece: str) -> str:
            body = _body(piece)
            if thread:
                body["m.relates_to"] = {"rel_type": "m.thread", "event_id": thread}
            return await self._put(chat_id, body, _transaction(f"{key}:{index}" if key else uuid.uuid4().hex))

        def may_repeat(error: PlatformApiError, is_first: bool) -> bool:
            # With the same transaction ids again, the server makes no second event of what it has already.
            is_lost = error.status == 0 or error.status >= 500
            return error.may_repeat or is_lost if key else error.may_repeat and is_first

        return await send_pieces(split_text(content, MAX_TEXT), send_piece, may_repeat=may_repeat)

    async def edit_message(self, chat_id: str, message_id: str, content: str, *, finalize: bool = False) -> SendResult:
        body = _body(split_text(content, MAX_TEXT)[0])
        edit = {
            **body,
            "body": f"* {body['body']}",
            "m.new_content": body,
            "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
        }
        try:
            await self._put(chat_id, edit, _transaction(uuid.uuid4().hex))
        except PlatformApiError as error:
            return error.result()
        return SendResult(True, message_id)

    async def _put(self, room: str, body: dict[str, Any], transaction: str) -> str:
        path = f"/rooms/{quote(room, safe='')}/send/m.room.message/{transaction}"
        return str((await self._call("PUT", path, json=body)).get("event_id"))

    async def send_typing(self, chat_id: str, metadata: dict[str, Any] | None = None) -> None:
        await self._set_typing(chat_id, {"typing": True, "timeout": 10_000})

    async def stop_typing(self, chat_id: str) -> None:
        await self._set_typing(chat_id, {"typing": False})

    async def _set_typing(self, room: str, body: dict[str, Any]) -> None:
        path = f"/rooms/{quote(room, safe='')}/typing/{quote(self._own_user, safe='')}"
        await self._call("PUT", path, json=body)

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        name = chat_id
        with contextlib.suppress(PlatformApiError):
            found = await self._call("GET", f"/rooms/{quote(chat_id, safe='')}/state/m.room.name")
            name = str(found.get("name") or chat_id)
        return {"name": name, "type": "dm" if await self._member_count(chat_id) <= 2 else "group"}

    async def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        status, answer = await self._api.call(method, path, **options)
        if status == 200:
            return answer
        pause = answer.get("retry_after_ms")
        kinds = {403: "forbidden", 404: "not_found", 413: "too_long", 429: "rate_limited"}
        raise PlatformApiError(
            f"{answer.get('errcode')}: {str(answer.get('error'))[:200]} (status {status})",
            kind=kinds.get(status, "unknown"),
            status=status,
            may_repeat=status == 429,
            retry_after=pause / 1000 if isinstance(pause, int | float) else None,
        )


def _transaction(key: str) -> str:
    """The transaction id of a message: the same for every attempt to send it."""
    return f"hermes-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def _body(text: str) -> dict[str, Any]:
    from markdown_it import MarkdownIt

    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text).strip()
    body: dict[str, Any] = {"msgtype": "m.text", "body": text}
    return {**body, "format": "org.matrix.custom.html", "formatted_body": html}
