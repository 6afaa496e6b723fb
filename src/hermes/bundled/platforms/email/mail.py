"""Incoming mails, as ``parse.py`` describes them, and answers to them. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime, make_msgid

import msgspec

from .parse import ADDRESS, LOOP_HEADER

__all__ = ["ADDRESS", "Attachment", "IncomingMail", "NotForUs", "ParsedContent", "ParsedHeader", "make_answer"]

#: Ids of a thread that an answer repeats; mail clients need the first and the last ones.
_MOST_REFERENCES = 20
_REPLY_MARK = re.compile(r"\s*(re|aw|sv|antw|odp|ref|rif)(\[\d+\])?:\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Attachment:
    """A file of a mail."""

    name: str
    media_type: str
    data: bytes = field(repr=False)

    async def read(self, limit: int) -> bytes:
        """The content; the mail was fetched with all of it."""
        return self.data[: limit + 1]


@dataclass(frozen=True)
class IncomingMail:
    """A mail as far as it matters here."""

    sender: str
    sender_name: str
    subject: str
    text: str
    message_id: str
    #: Ids of the mails before it, the oldest first.
    references: tuple[str, ...] = ()
    attachments: tuple[Attachment, ...] = ()

    @property
    def thread(self) -> str:
        """The id of the conversation: that of its first mail."""
        return (*self.references, self.message_id)[0].strip("<>")


class NotForUs(Exception):
    """A mail that must not be answered, and why."""


class ParsedHeader(msgspec.Struct, frozen=True):
    """What ``parse.py`` says of the header of a mail."""

    refused: str = ""
    mail: IncomingMail | None = None
    #: Whether our own server vouches for the sender.
    is_vouched: bool = False


class ParsedContent(msgspec.Struct, frozen=True):
    """What ``parse.py`` says of a whole mail."""

    refused: str = ""
    text: str = ""
    attachments: tuple[Attachment, ...] = ()


def make_answer(
    *, own_address: str, own_name: str, recipient: str, text: str, answered: IncomingMail | None = None
) -> EmailMessage:
    """A mail of ours, in the thread of the one that it answers."""
    mail = EmailMessage(policy=SMTP)
    local, _, domain = own_address.rpartition("@")
    mail["From"] = Address(own_name, local, domain)
    mail["To"] = recipient
    title = answered.subject if answered else ""
    bare = _REPLY_MARK.sub("", title, count=1) if _REPLY_MARK.match(title) else title
    mail["Subject"] = f"Re: {bare}" if answered else "Hermes"
    mail["Date"] = format_datetime(localtime())
    mail["Message-ID"] = make_msgid(domain=domain)
    if answered and answered.message_id:
        chain = [*answered.references, answered.message_id]
        mail["In-Reply-To"] = answered.message_id
        mail["References"] = " ".join([*chain[:1], *chain[1:][-_MOST_REFERENCES + 1 :]])
    # RFC 3834: no program answers a mail that says so.
    mail["Auto-Submitted"] = "auto-replied" if answered else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail[LOOP_HEADER] = own_address
    mail.set_content(text)
    mail.add_alternative(_html(text), subtype="html")
    return mail


def _html(text: str) -> str:
    """The Markdown of an answer for mail programs that show HTML. HTML in it stays visible text."""
    from markdown_it import MarkdownIt

    return f"<html><body>{MarkdownIt('commonmark', {'html': False}).enable('table').render(text)}</body></html>"
