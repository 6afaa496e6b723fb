"""A connection to an IRC server: capabilities, SASL, the nick, channels, pings, and a bounded rate of sending."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field

from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed, abort_stream

from .protocol import (
    MAX_TAGGED_LINE,
    IrcLine,
    another_nick,
    format_line,
    lower,
    parse_line,
    room_for_text,
    sasl_plain,
    split_text,
)
from .settings import IrcSettings

log = logging.getLogger("hermes.platforms.irc")

_CAPABILITIES = ("account-tag", "message-tags", "sasl", "server-time")
_NICK_REFUSED = ("432", "433", "436", "437")
_SASL_FAILED = ("902", "904", "905", "906", "908")
#: Answers that end the attempt to register: banned, wrong password.
_REFUSED = ("464", "465", "466")
_JOIN_REFUSED = ("403", "405", "407", "437", "471", "473", "474", "475", "476", "477", "489")
_MOST_NICKS = 8
_USUAL_NICK_LENGTH = 30


class IrcError(ConnectionFailed):
    """The server refused us or was lost."""


@dataclass
class IrcConnection:
    """One connection, from the greeting to its end. ``open`` first, then ``messages``."""

    settings: IrcSettings
    nick: str = ""
    #: ``nick!user@host`` as others see us, once the server has shown it.
    mask: str = ""
    #: What the server says about itself in its 005 lines.
    facts: dict[str, str] = field(default_factory=dict[str, str])
    capabilities: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._nicks_tried = 0
        self._credit = float(self.settings.burst)
        self._credited_at = time.monotonic()
        self._sending = asyncio.Lock()

    # -- opening -----------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, log in and join the channels. Raises ``IrcError``."""
        settings = self.settings
        try:
            async with asyncio.timeout(settings.timeout):
                self._reader, self._writer = await asyncio.open_connection(
                    settings.server, settings.port, ssl=settings.tls_context(), limit=MAX_TAGGED_LINE
                )
                await self._register()
                await self._join()
        except TimeoutError:
            await self.close()
            raise IrcError(f"{settings.address} did not finish the login within {settings.timeout:g} s") from None
        except OSError as error:
            await self.close()
            raise IrcError(f"{settings.address}: {error.strerror or error}", code="connect_failed") from None
        except BaseException:
            await self.close()
            raise

    async def _register(self) -> None:
        settings = self.settings
        self.nick = settings.nick
        await self._write("CAP", "LS", "302")
        if settings.server_password:
            await self._write("PASS", settings.server_password)
        await self._write("NICK", self.nick)
        await self._write("USER", settings.user, "0", "*", settings.real_name)
        offered: list[str] = []
        while (line := await self._next()).command != "001":
            if line.command == "CAP":
                await self._negotiate(line, offered)
            elif line.command == "AUTHENTICATE" and line.param(0) == "+":
                await self._authenticate()
            elif line.command == "903":
                await self._write("CAP", "END")
            else:
                await self._check_registration(line)
        self.nick = line.param(0) or self.nick
        if settings.sasl_account and "sasl" not in self.capabilities:
            raise IrcError(
                f"{settings.address} does not offer SASL, and IRC_SASL_ACCOUNT is set", code="auth", is_final=True
            )

    async def _negotiate(self, line: IrcLine, offered: list[str]) -> None:
        kind = line.param(1).upper()
        if kind == "LS":
            offered += [name.partition("=")[0] for name in line.param(-1).split()]
            if line.param(2) == "*":
                return  # more lines follow
            wanted = [name for name in _CAPABILITIES if name in offered]
            if not self.settings.sasl_account and "sasl" in wanted:
                wanted.remove("sasl")
            await (self._write("CAP", "REQ", " ".join(wanted)) if wanted else self._write("CAP", "END"))
        elif kind == "ACK":
            self.capabilities |= set(line.param(-1).split())
            if "sasl" in self.capabilities:
                await self._write("AUTHENTICATE", self.settings.sasl_mechanism)
            else:
                await self._write("CAP", "END")
        elif kind == "NAK":
            await self._write("CAP", "END")

    async def _authenticate(self) -> None:
        if self.settings.sasl_mechanism == "EXTERNAL":
            await self._write("AUTHENTICATE", "+")
            return
        for piece in sasl_plain(self.settings.sasl_account, self.settings.sasl_password):
            await self._write("AUTHENTICATE", piece)

    async def _check_registration(self, line: IrcLine) -> None:
        if line.command in _NICK_REFUSED:
            self._nicks_tried += 1
            if self._nicks_tried > _MOST_NICKS:
                raise IrcError(f"the nick {self.settings.nick} and {_MOST_NICKS} like it are in use", code="nick")
            longest = self.facts.get("NICKLEN") or self.facts.get("MAXNICKLEN") or ""
            self.nick = another_nick(
                self.settings.nick, self._nicks_tried, int(longest) if longest.isdigit() else _USUAL_NICK_LENGTH
            )
            await self._write("NICK", self.nick)
        elif line.command in _SASL_FAILED:
            raise IrcError(f"the SASL login was refused: {line.param(-1)}", code="auth", is_final=True)
        elif line.command in _REFUSED:
            raise IrcError(f"{self.settings.address} refused us: {line.param(-1)}", code="refused", is_final=True)
        elif line.command == "421" and line.param(1).upper() == "CAP":
            pass  # a server without capabilities registers us all the same
        else:
            await self._handle(line)

    async def _join(self) -> None:
        """Join the channels and wait for each to answer: later lines may be messages."""
        waiting: set[str] = set()
        for entry in self.settings.channels:
            name, _, key = entry.partition(" ")
            waiting.add(self.lower(name))
            await (self._write("JOIN", name, key) if key else self._write("JOIN", name))
        if self.settings.nickserv_password:
            await self._write("PRIVMSG", "NickServ", f"IDENTIFY {self.settings.nickserv_password}")
        while waiting:
            line = await self._next()
            await self._handle(line)
            if line.command == "JOIN" and self.is_own(line.nick):
                waiting.discard(self.lower(line.param(0)))
            elif line.command in _JOIN_REFUSED:
                log.warning("IRC: %s cannot be joined: %s", line.param(1), line.param(-1))
                waiting.discard(self.lower(line.param(1)))

    # -- afterwards --------------------------------------------------------------------------------------------------

    async def next_message(self) -> IrcLine:
        """The next PRIVMSG of another. Raises ``IrcError`` when the connection has ended."""
        while True:
            line = await self._next()
            await self._handle(line)
            if line.command == "PRIVMSG" and len(line.params) > 1 and "!" in line.prefix and not self.is_own(line.nick):
                return line

    async def say(self, target: str, text: str) -> int:
        """Send a text to a channel or person, as many lines as it takes; their number.

        More lines than ``max_lines`` are cut off: at the pace that servers allow they would take minutes.
        """
        lines = list(split_text(text, room_for_text(target, self.mask, self.nick)))
        most = self.settings.max_lines
        if len(lines) > most:
            lines[most - 1 :] = [f"[{len(lines) - most + 1} more lines are left out; ask for a part of them]"]
        async with self._sending:
            for line in lines:
                await self._wait_for_credit()
                await self._write("PRIVMSG", target, line)
        return len(lines)

    def is_own(self, nick: str) -> bool:
        """Whether this is our nick."""
        return self.lower(nick) == self.lower(self.nick)

    def is_channel(self, name: str) -> bool:
        """Whether this is the name of a channel."""
        return name[:1] in self.facts.get("CHANTYPES", "#&")

    def lower(self, name: str) -> str:
        """A name in lower case, as this server compares names."""
        return lower(name, self.facts.get("CASEMAPPING") or "rfc1459")

    async def close(self, farewell: str = "") -> None:
        """Leave, politely when the connection still works."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(0.5):
                if farewell and not writer.is_closing():
                    writer.write(format_line("QUIT", farewell))
                    await writer.drain()
                writer.close()
                await writer.wait_closed()
        abort_stream(writer)

    async def _wait_for_credit(self) -> None:
        """Servers cut off clients that send too fast: a few lines at once, then one each ``line_interval`` seconds."""
        interval = self.settings.line_interval
        if interval <= 0:
            return
        now = time.monotonic()
        self._credit = min(float(self.settings.burst), self._credit + (now - self._credited_at) / interval)
        self._credited_at = now
        if self._credit < 1:
            await asyncio.sleep((1 - self._credit) * interval)
            self._credited_at = time.monotonic()
            self._credit = 1.0
        self._credit -= 1

    async def _handle(self, line: IrcLine) -> None:
        """What every line may change, whenever it arrives."""
        if line.command == "PING":
            await self._write("PONG", line.param(-1))
        elif line.command == "005":
            parts = (token.partition("=") for token in line.params[1:-1])
            self.facts |= {name: value for name, _, value in parts}
        elif line.command == "ERROR":
            raise IrcError(f"{self.settings.address} closed the connection: {line.param(0)}")
        elif self.is_own(line.nick) and "!" in line.prefix:
            self.mask = line.prefix
            if line.command == "NICK":
                self.nick = line.param(0)
                self.mask = self.nick + line.prefix[line.prefix.index("!") :]
        elif line.command == "KICK" and self.is_own(line.param(1)):
            log.warning("IRC: %s removed us from %s: %s", line.nick, line.param(0), line.param(-1))

    async def _next(self) -> IrcLine:
        """The next line. A server that is silent for long is asked for a sign of life once."""
        asked = False
        while True:
            if self._reader is None:
                raise IrcError("there is no connection")
            try:
                async with asyncio.timeout(self.settings.silence):
                    raw = await self._reader.readuntil(b"\n")
            except TimeoutError:
                if asked:
                    raise IrcError(f"{self.settings.address} no longer answers") from None
                asked = True
                await self._write("PING", "hermes")
                continue
            except asyncio.LimitOverrunError:
                raise IrcError(f"{self.settings.address} sent a line that is too long") from None
            except (asyncio.IncompleteReadError, OSError):
                raise IrcError(f"{self.settings.address} closed the connection") from None
            line = parse_line(raw)
            if line is not None:
                return line

    async def _write(self, command: str, *params: str) -> None:
        writer = self._writer
        if writer is None or writer.is_closing():
            raise IrcError("there is no connection")
        try:
            writer.write(format_line(command, *params))
            await writer.drain()
        except OSError as error:
            raise IrcError(f"{self.settings.address}: {error.strerror or error}") from None
