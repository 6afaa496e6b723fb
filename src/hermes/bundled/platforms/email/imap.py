"""A small IMAP client on the event loop: log in, find, fetch and flag mails, and wait for new ones with IDLE."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING

from hermes.surfaces.gateway.platforms.receiving import ConnectionFailed, abort_stream

if TYPE_CHECKING:
    import ssl

#: A line of a response that is longer is a fault; what is large comes as a literal.
_MAX_LINE = 1 << 20
_MAX_LITERAL = 128 << 20
#: Codes of a refusal that has nothing to do with the password.
_PASSING = re.compile(r"\[(UNAVAILABLE|INUSE|LIMIT|SERVERBUG|CONTACTADMIN)\]", re.IGNORECASE)
_LITERAL = re.compile(rb"\{(\d+)\}\r?\n\Z")


class ImapError(ConnectionFailed):
    """The server refused a command or was lost."""


class ImapResponse:
    """One response: its text, and the literals in it."""

    def __init__(self, pieces: list[bytes], literals: list[bytes]) -> None:
        self.text = b" ".join(pieces).decode("utf-8", "replace").strip()
        self.literals = literals

    def number(self, name: str) -> int:
        """The number behind a name, such as that of ``UID``; 0 when there is none."""
        found = re.search(rf"\b{re.escape(name)} (\d+)", self.text)
        return int(found[1]) if found else 0


class ImapClient:
    """One connection with one open folder."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout = timeout
        self._tags = 0
        self.capabilities: frozenset[str] = frozenset()
        #: Changes when the server renumbers the folder.
        self.uid_validity = 0
        #: A mail has arrived since the last search; the server reports each one once, along with any command.
        self._has_news = False
        self._is_idle = False

    @classmethod
    async def open(
        cls, host: str, port: int, context: ssl.SSLContext | None, *, starttls: bool = False, timeout: float = 30.0
    ) -> ImapClient:
        """Connect and read the greeting. Raises ``ImapError``."""
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=None if starttls else context, limit=_MAX_LINE
                )
                client = cls(reader, writer, timeout)
                try:
                    greeting = await client._response()
                    if not greeting.text.startswith("* OK"):
                        raise ImapError(f"{host}:{port} does not greet like an IMAP server")
                    if starttls:
                        await client.command("STARTTLS")
                        await writer.start_tls(context, server_hostname=host)  # pyright: ignore[reportArgumentType]
                except BaseException:
                    writer.close()
                    raise
        except TimeoutError:
            raise ImapError(f"{host}:{port} did not answer within {timeout:g} s") from None
        except OSError as error:
            raise ImapError(f"{host}:{port}: {error.strerror or error}") from None
        return client

    async def log_in(self, user: str, password: str) -> None:
        """Log in. Raises ``ImapError``, a final one when the server refuses."""
        try:
            await self.command("LOGIN", _quoted(user), _quoted(password))
        except ImapError as error:
            refused = str(error).startswith(("NO", "BAD")) and not _PASSING.search(str(error))
            # What the server says may repeat the command, which has the password in it.
            text = "the server refuses the user name or password" if refused else "the server takes no logins right now"
            raise ImapError(text, is_final=refused) from None
        for response in await self.command("CAPABILITY"):
            if response.text.startswith("* CAPABILITY "):
                self.capabilities = frozenset(response.text.upper().split()[2:])

    async def select(self, folder: str) -> None:
        """Open a folder for reading and flagging."""
        responses = await self.command("SELECT", _quoted(folder))
        self.uid_validity = next((found for one in responses if (found := one.number("UIDVALIDITY"))), 0)

    async def search(self, *criteria: str) -> list[int]:
        """The UIDs of the mails that match, in ascending order."""
        found: set[int] = set()
        self._has_news = False
        for response in await self.command("UID", "SEARCH", *criteria):
            if response.text.upper().startswith("* SEARCH"):
                found |= {int(word) for word in response.text.split()[2:] if word.isdigit()}
        return sorted(found)

    async def size(self, uid: int) -> int:
        """The size of a mail in bytes; 0 when it is no longer there."""
        responses = await self.command("UID", "FETCH", str(uid), "(UID RFC822.SIZE)")
        return next((one.number("RFC822.SIZE") for one in responses if one.number("UID") == uid), 0)

    async def fetch(self, uid: int, section: str = "", most: int = 0) -> bytes:
        """A mail, or the section of it such as ``HEADER``, without a change of its flags; empty when it is gone.

        ``most`` is how many bytes are wanted at most; 0 means all.
        """
        part = f"<0.{most}>" if most else ""
        responses = await self.command("UID", "FETCH", str(uid), f"(UID BODY.PEEK[{section}]{part})")
        return next((one.literals[0] for one in responses if one.number("UID") == uid and one.literals), b"")

    async def mark_seen(self, uid: int) -> None:
        """Flag a mail as read."""
        await self.command("UID", "STORE", str(uid), "+FLAGS.SILENT", r"(\Seen)")

    async def wait(self, seconds: float) -> bool:
        """Wait for a change of the folder, at most so long. Whether there was one.

        With IDLE the server reports it at once; without it, this only lets the time pass.
        """
        if self._has_news:
            return True
        if "IDLE" not in self.capabilities:
            await asyncio.sleep(seconds)
            await self.command("NOOP")
            return True
        tag = await self._send("IDLE")
        self._is_idle = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._has_news:
                    # When the time is over, half a line stays in the reader's buffer for the next read.
                    text = (await self._response(None)).text
                    if text.startswith(f"{tag} "):
                        raise ImapError(f"IDLE: {text.partition(' ')[2]}")
        self._end_idle()
        await self._responses_to(tag)
        return self._has_news

    def _end_idle(self) -> None:
        if self._is_idle:
            self._is_idle = False
            self._writer.write(b"DONE\r\n")

    async def close(self) -> None:
        """Log out, as far as that is possible."""
        with contextlib.suppress(ImapError, OSError, TimeoutError):
            async with asyncio.timeout(1):
                self._end_idle()
                await self.command("LOGOUT")
                self._writer.close()
                await self._writer.wait_closed()
        abort_stream(self._writer)

    async def command(self, *words: str) -> list[ImapResponse]:
        """Send a command and return the untagged responses to it. Raises ``ImapError`` when it fails."""
        return await self._responses_to(await self._send(*words))

    async def _send(self, *words: str) -> str:
        self._tags += 1
        tag = f"H{self._tags}"
        try:
            self._writer.write(" ".join((tag, *words)).encode() + b"\r\n")
            await self._writer.drain()
        except OSError as error:
            raise ImapError(f"the connection is lost: {error.strerror or error}") from None
        return tag

    async def _responses_to(self, tag: str) -> list[ImapResponse]:
        responses: list[ImapResponse] = []
        while not (response := await self._response()).text.startswith(f"{tag} "):
            responses.append(response)
        outcome = response.text.partition(" ")[2]
        if not outcome.upper().startswith("OK"):
            raise ImapError(outcome)
        return responses

    async def _response(self, timeout: float | None = -1) -> ImapResponse:
        """The next response with its literals. Without a timeout given, that of the connection."""
        pieces: list[bytes] = []
        literals: list[bytes] = []
        try:
            async with asyncio.timeout(self._timeout if timeout == -1 else timeout):
                while True:
                    line = await self._reader.readuntil(b"\n")
                    literal = _LITERAL.search(line)
                    if literal is None:
                        self._has_news = self._has_news or bool(re.match(rb"\* \d+ EXISTS", line))
                        return ImapResponse([*pieces, line.rstrip(b"\r\n")], literals)
                    pieces.append(line[: literal.start()])
                    if int(literal[1]) > _MAX_LITERAL:
                        raise ImapError("the server sent more than was asked for")
                    literals.append(await self._reader.readexactly(int(literal[1])))
        except TimeoutError:
            raise ImapError("the server no longer answers") from None
        except (asyncio.IncompleteReadError, OSError):
            raise ImapError("the server closed the connection") from None
        except asyncio.LimitOverrunError:
            raise ImapError("the server sent a line that is too long") from None


def _quoted(text: str) -> str:
    if re.search("[\x00\r\n]", text):
        raise ImapError("a name or password has a line break in it", is_final=True)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
