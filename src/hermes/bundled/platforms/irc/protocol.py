"""IRC lines: parsing, formatting, splitting at the length limit, names compared as the server does. No I/O."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

#: Bytes of a line on the wire, with its line end. Tags of IRCv3 come on top of it.
MAX_LINE = 512
#: A line with tags may be this long. Anything longer is a fault or an attack.
MAX_TAGGED_LINE = 8191 + MAX_LINE
#: User and host of a sender as long as servers allow them, for the time before ours are known.
_LONGEST_MASK_TAIL = len("!") + 10 + len("@") + 63

_CONTROL = re.compile("[\x00\x01\r\n]")
_TAG_ESCAPES = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
#: Characters that rfc1459 counts as upper and lower case of each other.
_RFC1459 = str.maketrans("[]\\~", "{}|^")
_STRICT = str.maketrans("[]\\", "{}|")
#: Formatting codes of clients: bold, italic, underline, strike-through, monospace, reverse, reset, colours.
_FORMATTING = re.compile("\x03(?:\\d{1,2}(?:,\\d{1,2})?)?|\x04(?:[0-9a-fA-F]{6})?|[\x02\x0f\x11\x16\x1d\x1e\x1f]")


@dataclass(frozen=True)
class IrcLine:
    """One line of the protocol."""

    command: str
    params: tuple[str, ...] = ()
    #: The sender: a server's name, or ``nick!user@host``.
    prefix: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def nick(self) -> str:
        """The sender's nick."""
        return self.prefix.partition("!")[0]

    def param(self, index: int) -> str:
        """A parameter, empty when there is none."""
        return self.params[index] if -len(self.params) <= index < len(self.params) else ""


def parse_line(raw: bytes) -> IrcLine | None:
    """The line in ``raw``, without its line end; ``None`` when there is no command in it."""
    text = _decode(raw.rstrip(b"\r\n"))
    tags: dict[str, str] = {}
    if text.startswith("@"):
        encoded, _, text = text[1:].partition(" ")
        for part in encoded.split(";"):
            name, _, value = part.partition("=")
            tags[name] = _unescape_tag(value)
    text = text.lstrip(" ")
    prefix = ""
    if text.startswith(":"):
        prefix, _, text = text[1:].partition(" ")
    middle, has_trailing, trailing = text.lstrip(" ").partition(" :")
    words = middle.split()
    if not words:
        return None
    if has_trailing:
        words.append(trailing)
    return IrcLine(words[0].upper(), tuple(words[1:]), prefix, tags)


def format_line(command: str, *params: str) -> bytes:
    """A line to send. Only the last parameter may be empty or have blanks in it. Raises ``ValueError``."""
    *middle, last = params or ("",)
    for param in middle:
        if not param or param.startswith(":") or " " in param or _CONTROL.search(param):
            raise ValueError(f"{param!r} cannot be a parameter of an IRC command")
    if re.search("[\x00\r\n]", last):
        raise ValueError("a parameter of an IRC command has a line break")
    if params:
        middle.append(f":{last}" if not last or " " in last or last.startswith(":") else last)
    parts = [command, *middle]
    return " ".join(parts).encode() + b"\r\n"


def is_target(name: str) -> bool:
    """Whether a message may be sent to this channel or nick: one name, and no other command behind it."""
    return bool(name) and not name.startswith((":", "$")) and not re.search("[\x00\x01\x07\r\n ,]", name)


def room_for_text(target: str, own_mask: str, nick: str) -> int:
    """Bytes of text that fit into one PRIVMSG when the server passes it on with our mask before it."""
    mask = len(own_mask.encode()) or len(nick.encode()) + _LONGEST_MASK_TAIL
    return MAX_LINE - len(b"\r\n") - len(f": PRIVMSG {target} :".encode()) - mask


def split_text(text: str, room: int) -> Iterator[str]:
    """The lines of a text, each at most ``room`` bytes long, cut between words where possible. Empty ones are left out.

    A character of more than one byte is never cut apart.
    """
    for line in text.splitlines():
        rest = _CONTROL.sub("", line).rstrip()
        while rest.strip():
            piece = rest.encode()[:room].decode(errors="ignore")
            if not piece:
                raise ValueError(f"{room} bytes are not enough for a character")
            if len(piece) < len(rest) and not rest[len(piece)].isspace():
                blank = piece.rfind(" ")
                # A word that takes up most of the line is cut: a short line for its sake helps no reader.
                piece = piece[:blank] if blank > len(piece) // 3 else piece
            yield piece.rstrip()
            rest = rest[len(piece) :].lstrip()


def plain_text(text: str) -> str:
    """A message without the formatting codes of the sender's client."""
    return _FORMATTING.sub("", text)


def without_markdown(text: str) -> str:
    """Markdown as it reads best in a chat of plain text: no emphasis marks, no fences, links with their address."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            is_code = not is_code
            continue
        lines.append(line if is_code else _plain_line(line))
    return "\n".join(lines)


def _plain_line(line: str) -> str:
    kept: list[str] = []
    for index, part in enumerate(line.split("`")):
        if index % 2:  # between back quotes nothing is markup
            kept.append(part)
            continue
        part = re.sub(r"!?\[([^\]]*)\]\((\S+?)\)", lambda found: _link(found[1], found[2]), part)
        part = re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", part)
        kept.append(re.sub(r"(?<![\w*])\*(?=[^\s*])([^*]+?)(?<=\S)\*(?![\w*])", r"\1", part))
    return re.sub(r"^#{1,6} ", "", "".join(kept))


def _link(text: str, address: str) -> str:
    return address if not text or text == address else f"{text} ({address})"


def addressed(text: str, nick: str) -> str | None:
    """What is said to ``nick`` in a channel (``nick: text``, ``nick, text``, ``@nick text``); else ``None``."""
    found = re.match(rf"@?{re.escape(nick)}(?:[:,]\s*|\s+|$)", text.strip(), re.IGNORECASE)
    return text.strip()[found.end() :].strip() if found else None


def lower(name: str, casemapping: str = "rfc1459") -> str:
    """A nick or channel in lower case, as the server compares names."""
    if casemapping == "ascii":
        return "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in name)
    return name.lower().translate(_STRICT if casemapping == "rfc1459-strict" else _RFC1459)


def another_nick(wanted: str, tried: int, longest: int) -> str:
    """The nick to try after ``tried`` refusals: a digit or an underscore at the end, within the allowed length."""
    suffix = "_" if tried == 1 else str(tried)
    return wanted[: longest - len(suffix)] + suffix


def sasl_plain(account: str, password: str) -> list[str]:
    """The AUTHENTICATE parameters of SASL PLAIN: pieces of 400 characters, and ``+`` after a full last one."""
    payload = base64.b64encode(f"{account}\0{account}\0{password}".encode()).decode()
    pieces = [payload[start : start + 400] for start in range(0, len(payload), 400)]
    return [*pieces, "+"] if len(pieces[-1]) == 400 else pieces


def _decode(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # old clients


def _unescape_tag(value: str) -> str:
    return re.sub(r"\\(.?)", lambda found: _TAG_ESCAPES.get(found[1], found[1]), value)
