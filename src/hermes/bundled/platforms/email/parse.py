"""Parses a mail from standard input. A program of its own: it imports nothing of Hermes.

Anyone can send a mail, and the parsers of the standard library take very long for some: it runs as a parser process
(``tools/terminal/parser_process.py``). ``header ADDRESS AUTHSERV_ID`` reads the header only, which decides whether the
rest is looked at; ``content`` reads a whole mail.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.policy import default
from email.utils import getaddresses
from html.parser import HTMLParser
from typing import Any

#: Marks our own mails, so that one that comes back to us is known.
LOOP_HEADER = "X-Hermes-Loop"
#: What a mail address looks like, which nothing else can hide in.
ADDRESS = r"[^@\s<>,;\x00-\x20]+@[^@\s<>,;]+"
_MESSAGE_ID = re.compile(r"<[^<>\s]{1,250}>")
_AUTOMATIC_SENDERS = re.compile(
    r"(mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)([+._-].*)?", re.IGNORECASE
)
_MARKS_OF_PROGRAMS = ("List-Id", "List-Unsubscribe", "X-Autoreply", "X-Autorespond")
_ATTRIBUTION = re.compile(
    r"^.{0,200}\b(wrote|schrieb|écrit|escribió|ha scritto)\b.{0,100}:\s*$", re.IGNORECASE | re.DOTALL
)
_OPENING = re.compile(r"(On|Am|Le|El|Il|Den|Op)\b", re.IGNORECASE)
_FORWARD_RULE = re.compile(
    r"^-{2,}\s*(Original Message|Ursprüngliche Nachricht|Message d'origine)\s*-{2,}$", re.IGNORECASE
)


class _NotForUs(Exception):
    """A mail that must not be answered, and why."""


def main() -> int:
    """Read a mail, and print what it says, or ``{"refused": why}``, as JSON."""
    kind, arguments = sys.argv[1], sys.argv[2:]
    raw = sys.stdin.buffer.read()
    try:
        answer = parse_header(raw, *arguments) if kind == "header" else parse_content(raw)
    except MemoryError:
        answer = {"refused": "it needs too much memory"}
    except Exception as error:  # the standard parser has its own ways to fail on what strangers send
        answer = {"refused": f"it cannot be parsed ({type(error).__name__})"}
    # Half a pair of surrogates, which some character sets produce, is no text.
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    return 0


def parse_header(raw: bytes, own_address: str, authserv_id: str) -> dict[str, Any]:
    """Who wrote a mail and in which thread, and whether the server ``authserv_id`` vouches for the sender.

    A mail that a program sent, or that cannot be answered, is refused.
    """
    mail = message_from_bytes(raw, policy=default)
    try:
        name, sender = _sender(mail)
        _refuse_automatic(mail, sender, own_address)
    except _NotForUs as reason:
        return {"refused": str(reason)}
    ids = _ids(mail, "References") or _ids(mail, "In-Reply-To")[:1]
    own_id = (_ids(mail, "Message-ID") or [""])[0]
    found = {
        "sender": sender,
        "sender_name": name,
        "subject": _header(mail, "Subject"),
        "text": "",
        "message_id": own_id,
        "references": [one for one in ids if one != own_id],
    }
    return {"mail": found, "is_vouched": _is_authenticated(mail, authserv_id, sender)}


def parse_content(raw: bytes) -> dict[str, Any]:
    """What a mail says, and its files."""
    mail = message_from_bytes(raw, policy=default)
    body = mail.get_body(("plain", "html"))
    text = _text_of(body) if body is not None else ""
    attachments = [
        {"name": _file_name(part), "media_type": part.get_content_type(), "data": b64encode(data).decode()}
        for part in mail.walk()
        if part is not body and _is_attachment(part) and (data := _bytes_of(part))
    ]
    return {"text": without_quotation(text), "attachments": attachments}


# -- headers ---------------------------------------------------------------------------------------------------------


def _header(mail: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(mail.get(name, "")).split())
    except Exception:  # the parser of headers stumbles over what strangers send
        return ""


def _sender(mail: EmailMessage) -> tuple[str, str]:
    found = [(name, address) for name, address in getaddresses([_header(mail, "From")]) if address]
    has_one = len(mail.get_all("From", [])) == len(found) == 1
    if not has_one or not re.fullmatch(ADDRESS, found[0][1]):
        raise _NotForUs("it does not have exactly one sender")
    return found[0][0], found[0][1].lower()


def _ids(mail: EmailMessage, name: str) -> list[str]:
    return _MESSAGE_ID.findall(_header(mail, name))


def _refuse_automatic(mail: EmailMessage, sender: str, own_address: str) -> None:
    """Raise ``_NotForUs`` for a mail of a program: answering one may never end."""
    if sender == own_address.lower() or _header(mail, LOOP_HEADER).lower() == own_address.lower():
        raise _NotForUs("we sent it ourselves")
    submitted = _header(mail, "Auto-Submitted").lower()
    if submitted and submitted.split(";")[0].strip() != "no":
        raise _NotForUs(f"it is automatic (Auto-Submitted: {submitted[:40]})")
    if _header(mail, "Precedence").lower() in ("bulk", "junk", "list", "auto_reply"):
        raise _NotForUs("it was sent in bulk")
    suppressed = {word.strip() for word in _header(mail, "X-Auto-Response-Suppress").lower().split(",")}
    if suppressed & {"all", "autoreply"} or any(name in mail for name in _MARKS_OF_PROGRAMS):
        raise _NotForUs("it comes from a mailing list or a program")
    if _header(mail, "Return-Path") == "<>" or mail.get_content_type() == "multipart/report":
        raise _NotForUs("it is a delivery report")
    if _AUTOMATIC_SENDERS.fullmatch(sender.partition("@")[0]):
        raise _NotForUs("its sender reads no answers")


def _is_authenticated(mail: EmailMessage, authserv_id: str, sender: str) -> bool:
    """Whether the receiving server vouches for the sender: DMARC passed, or DKIM or SPF of the sender's own domain.

    Only the topmost ``Authentication-Results`` that name our server count; a sender may have written any other.
    """
    domain = sender.rpartition("@")[2]
    for header in mail.get_all("Authentication-Results", []):
        text = re.sub(r"\([^()]*\)", " ", " ".join(str(header).split()))
        server, *results = (part.strip() for part in text.split(";"))
        if server.split(" ")[0].lower() != authserv_id.lower():
            return False
        return any(_passes(result.lower(), domain) for result in results)
    return False


def _passes(result: str, domain: str) -> bool:
    named = re.search(r"\b(?:header\.from|header\.d|header\.i|smtp\.mailfrom)=(?:\S*@)?([^\s;]+)", result)
    if named is None:
        return result.startswith("dmarc=pass")
    return result.startswith(("dmarc=pass", "dkim=pass", "spf=pass")) and named[1].rstrip(".") == domain


# -- content ---------------------------------------------------------------------------------------------------------


def _is_attachment(part: MIMEPart) -> bool:
    is_file = part.is_attachment() or bool(part.get_filename()) or part.get_content_maintype() != "text"
    return is_file and not part.is_multipart()


def _text_of(part: MIMEPart) -> str:
    raw = _bytes_of(part)
    charset = part.get_content_charset("utf-8")
    try:
        text = raw.decode(charset, "replace")
    except LookupError:
        text = raw.decode("utf-8", "replace")
    text = text.replace("\x00", "").replace("\r\n", "\n")
    return html_to_text(text) if part.get_content_type() == "text/html" else text


def _bytes_of(part: MIMEPart) -> bytes:
    found = part.get_payload(decode=True)
    return found if isinstance(found, bytes) else b""


def _file_name(part: MIMEPart) -> str:
    """The name of an attachment without folders and control characters."""
    name = re.sub(r"[\x00-\x1f\x7f/\\:]", "_", part.get_filename() or "").strip(". ")
    return name[-100:] or f"attachment.{part.get_content_subtype()[:20]}"


def without_quotation(text: str) -> str:
    """What is new in a mail: without the quotation at its end and the line above it, and without a signature.

    A quotation between lines that answer it stays, and so does a mail that is nothing else.
    """
    lines = text.rstrip().split("\n")
    for index, line in enumerate(lines):
        if line.rstrip("\r") in ("-- ", "--") or _FORWARD_RULE.match(line.strip()):
            lines = lines[:index]
            break
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(">")):
        end -= 1
    if end < len(lines) and any(line.lstrip().startswith(">") for line in lines[end:]):
        end -= _attribution_lines(lines[:end])
    return "\n".join(lines[:end]).strip() or text.strip()


def _attribution_lines(lines: list[str]) -> int:
    """How many lines at the end introduce a quotation: none, one, or two when the sentence is long."""
    for count in (1, 2):
        opening = "\n".join(lines[-count:]).strip()
        if len(lines) >= count and _ATTRIBUTION.match(opening) and (count == 2 or _OPENING.match(opening)):
            return count if _OPENING.match(opening) else 1
    return 1 if lines and _ATTRIBUTION.match(lines[-1].strip()) else 0


_BLOCKS = frozenset(
    (
        "address article blockquote div dl dt dd footer form header hr li ol h1 h2 h3 h4 h5 h6 p pre section "
        "table tr ul"
    ).split()
)
_HIDDEN = frozenset({"head", "script", "style", "title", "template"})


class _TextOfHtml(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0
        self._address = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag == "br" or tag in _BLOCKS:
            self.parts.append("\n- " if tag == "li" else "\n")
        elif tag == "a":
            self._address = dict(attrs).get("href") or ""
        elif tag in ("td", "th"):
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif tag in _BLOCKS:
            self.parts.append("\n")
        elif tag == "a" and self._address.startswith(("http://", "https://")):
            if self._address not in "".join(self.parts[-3:]):
                self.parts.append(f" ({self._address})")
            self._address = ""

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(re.sub(r"\s+", " ", data))


def html_to_text(html: str) -> str:
    """The text of an HTML mail, with the addresses of its links."""
    parser = _TextOfHtml()
    parser.feed(html)
    parser.close()
    text = re.sub(r"[ \t\xa0]*\n[ \t\xa0]*", "\n", "".join(parser.parts))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


if __name__ == "__main__":
    sys.exit(main())
