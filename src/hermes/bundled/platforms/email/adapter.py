"""The adapter of email: new mails of a mailbox as messages for the gateway, answers over SMTP in the same thread."""

from __future__ import annotations

import re
import time
from collections import OrderedDict, deque
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hermes.surfaces.gateway.adapter import (
    MessageEvent,
    MessageFile,
    MessageType,
    PlatformConfig,
    PluginHttp,
    SendResult,
    SessionSource,
    run_in_thread,
)
from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed, ReceivingAdapter

from .imap import ImapClient, ImapError
from .mail import ADDRESS, IncomingMail, NotForUs, ParsedContent, ParsedHeader, make_answer
from .settings import EmailSettings
from .smtp import SmtpError, check_login, send_mail

#: Mails that may still be answered without being looked up again.
_REMEMBERED = 500
#: Servers end an IDLE after half an hour, routers forget a silent connection earlier.
_IDLE_SECONDS = 9 * 60.0
_HOUR = 3600.0
#: Headers that a person's mail has are far below; the server adds a few.
_MOST_HEADER_BYTES = 100_000

P = TypeVar("P", ParsedHeader, ParsedContent)


class EmailAdapter(ReceivingAdapter[EmailSettings]):
    """One mailbox. A sender is a direct chat, and each of its mail threads a conversation."""

    label = "email"

    def __init__(self, config: PlatformConfig, settings: EmailSettings, http: PluginHttp | None = None) -> None:
        super().__init__(config, settings, http)
        self._client: ImapClient | None = None
        self._answerable: OrderedDict[str, IncomingMail] = OrderedDict()
        self._received: dict[str, deque[float]] = {}

    async def log_in(self) -> str:
        settings = self._settings
        await run_in_thread(lambda _interrupt: check_login(settings))
        self._client = await self._open()
        return f"reading {settings.folder} of {settings.address}"

    def explain(self, error: ConnectionFailed) -> str:
        return f"{self._settings.imap_host}: {error}" if isinstance(error, ImapError) else str(error)

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        settings = self._settings
        if not re.fullmatch(ADDRESS, chat_id):
            return SendResult(False, error=f"{chat_id!r} is not a mail address", error_kind="not_found")
        answered = await self._answered(reply_to or "", chat_id)
        mail = make_answer(
            own_address=settings.address, own_name=settings.name, recipient=chat_id, text=content, answered=answered
        )
        try:
            await run_in_thread(lambda _interrupt: send_mail(mail, chat_id, settings))
        except SmtpError as error:
            return SendResult(False, error=str(error), retryable=error.may_repeat, error_kind=error.kind)
        return SendResult(True, message_id=str(mail["Message-ID"]))

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {"name": chat_id, "type": "dm"}

    # -- receiving ---------------------------------------------------------------------------------------------------

    async def _open(self) -> ImapClient:
        settings = self._settings
        client = await ImapClient.open(
            settings.imap_host,
            settings.imap_port,
            None if settings.imap_security == "none" else settings.tls,
            starttls=settings.imap_security == "starttls",
            timeout=settings.timeout,
        )
        try:
            await client.log_in(settings.login, settings.password)
            await client.select(settings.folder)
        except BaseException:
            await client.close()
            raise
        return client

    async def receive(self) -> None:
        while (client := self._client) is not None:
            oldest = datetime.now(UTC) - timedelta(days=self._settings.max_age_days)
            # IMAP has English month names, whatever the locale is.
            since = f"{oldest.day}-{_MONTHS[oldest.month - 1]}-{oldest.year}"
            for uid in await client.search("UNSEEN", "SINCE", since):
                await self._take(client, uid)
            await client.wait(_IDLE_SECONDS if "IDLE" in client.capabilities else self._settings.poll_seconds)

    async def _take(self, client: ImapClient, uid: int) -> None:
        """Hand one mail over. It is marked as read when the gateway has stored it, or when it is not for us."""
        try:
            mail = await self._read(client, uid)
        except NotForUs as reason:
            self.log.info("email: mail %d is left alone: %s", uid, reason)
        else:
            message_id = f"{client.uid_validity}.{uid}"
            self._remember(message_id, mail)
            await self.handle_message(self._event(mail, message_id))
        await client.mark_seen(uid)

    async def _read(self, client: ImapClient, uid: int) -> IncomingMail:
        """A mail for us. Its content is not looked at before its sender is known to be let in."""
        settings = self._settings
        size = await client.size(uid)
        if size > settings.max_bytes:
            raise NotForUs(f"it has {size:,} bytes, and {settings.max_bytes:,} are allowed")
        mail, is_vouched = await self._parse_header(await client.fetch(uid, "HEADER", _MOST_HEADER_BYTES + 1))
        if settings.require_authentication and not is_vouched:
            raise NotForUs(f"{settings.authserv_id} does not vouch for its sender {mail.sender}")
        self._count(mail.sender)
        if not await self.lets_in(self._source(mail)):
            return mail  # the gateway decides what a stranger is told; what the stranger wrote plays no part in it
        content = await self._parse(ParsedContent, await client.fetch(uid), "content")
        if not content.text and not content.attachments:
            raise NotForUs("it is empty")
        return replace(mail, text=content.text, attachments=content.attachments)

    async def _parse_header(self, raw: bytes) -> tuple[IncomingMail, bool]:
        """The mail without its content, and whether our own server vouches for its sender."""
        if len(raw) > _MOST_HEADER_BYTES:
            raise NotForUs(f"its header has more than {_MOST_HEADER_BYTES:,} bytes")
        settings = self._settings
        found = await self._parse(ParsedHeader, raw, "header", settings.address, settings.authserv_id)
        if found.mail is None:
            raise NotForUs("it has no header")
        return found.mail, found.is_vouched

    async def _parse(self, kind: type[P], raw: bytes, *arguments: str) -> P:
        """What the parser says of a mail. Raises ``NotForUs``."""
        answer = await self.parse_apart(Path(__file__).with_name("parse.py"), arguments, raw)
        try:
            found = msgspec.json.decode(answer, type=kind)
        except msgspec.DecodeError:
            raise NotForUs(f"it took too long or too much memory to parse ({len(raw):,} bytes)") from None
        if found.refused:
            raise NotForUs(found.refused)
        return found

    def _count(self, sender: str) -> None:
        times = self._received.setdefault(sender, deque())
        now = time.monotonic()
        while times and times[0] < now - _HOUR:
            times.popleft()
        if len(times) >= self._settings.max_per_hour:
            raise NotForUs(f"{sender} has sent {len(times)} mails within an hour")
        times.append(now)

    def _source(self, mail: IncomingMail) -> SessionSource:
        return self.build_source(
            mail.sender,
            chat_name=mail.sender,
            user_id=mail.sender,
            user_name=mail.sender_name or mail.sender,
            thread_id=mail.thread or None,
        )

    def _event(self, mail: IncomingMail, message_id: str) -> MessageEvent:
        text = mail.text
        if mail.subject and not mail.references and not text.startswith("/"):
            text = f"Subject: {mail.subject}\n\n{text}"
        kind = MessageType.COMMAND if text.startswith("/") else MessageType.TEXT
        files = [MessageFile(one.name, one.media_type, len(one.data), one.read) for one in mail.attachments]
        return MessageEvent(text, kind, self._source(mail), message_id=message_id, files=files)

    # -- answering ---------------------------------------------------------------------------------------------------

    def _remember(self, message_id: str, mail: IncomingMail) -> None:
        self._answerable[message_id] = replace(mail, text="", attachments=())
        while len(self._answerable) > _REMEMBERED:
            self._answerable.popitem(last=False)

    async def _answered(self, message_id: str, recipient: str) -> IncomingMail | None:
        """The mail that an answer belongs to, from the mailbox when this process has not seen it."""
        found = self._answerable.get(message_id)
        if found is None and re.fullmatch(r"\d+\.\d+", message_id):
            try:
                found = await self._look_up(message_id)
            except ImapError as error:
                self.log.warning("email: the mail to answer cannot be read again: %s", error)
        return found if found is not None and found.sender == recipient.lower() else None

    async def _look_up(self, message_id: str) -> IncomingMail | None:
        validity, _, uid = message_id.partition(".")
        client = await self._open()
        try:
            if client.uid_validity != int(validity):
                return None
            raw = await client.fetch(int(uid), "HEADER", _MOST_HEADER_BYTES + 1)
        finally:
            await client.close()
        try:
            return (await self._parse_header(raw))[0] if raw else None
        except NotForUs:
            return None


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
