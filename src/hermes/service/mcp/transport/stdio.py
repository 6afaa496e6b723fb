"""The stdio transport: an MCP server as a child process that ends with Hermes, however Hermes ends.

The SDK's own transport does not say which process it started, waits seconds for one that does not end, and takes
lines of any length. The process starts before the SDK is imported, so that both happen at the same time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.service.mcp.errors import McpError
from hermes.tools.terminal.child_process import check_program
from hermes.tools.terminal.supervisor import REGISTER

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

    from hermes.tools.sandbox.confinement import Confinement
    from hermes.tools.terminal.supervisor import ProcessSupervisor

#: The longest message that is taken. Of a longer one only the request that it answers is read.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
#: How much of the end of the server's standard error is kept for error messages.
_KEPT_ERRORS = 4_000
_CHUNK = 262_144
#: Seconds for the process to end after its input was closed, and after SIGTERM.
_GRACE, _TERM_GRACE = 0.2, 0.8
_LOOK_EVERY = 0.01
#: Seconds to wait for the exit code of a process whose pipes broke, and then for what it wrote last.
_LAST_WORDS, _STILL_WRITTEN = 0.5, 0.1
#: How much of the ends of a message that is too long is kept.
_ENDS = 400
_REQUEST_ID = re.compile(rb'"id"\s*:\s*(\d+)')
#: Registers the process group, then becomes the server; its standard error is the descriptor that ``$0`` names.
_START = REGISTER + 'exec "$@" 2>"$0"'


class StdioProcess:
    """The process of a server: the leader of a process group that the supervisor knows. For the loop's thread."""

    def __init__(
        self, command: Sequence[str], cwd: str, confinement: Confinement, supervisor: ProcessSupervisor
    ) -> None:
        """Start it. ``McpError`` when there is no such program."""
        self._confinement = confinement
        self._supervisor = supervisor
        self._errors = b""
        self._transports: list[asyncio.BaseTransport] = []
        self._errors_read = asyncio.Event()
        self._on_end: Callable[[], None] | None = None
        supervisor.start()  # here, outside of any sandbox, which would limit whom it can signal
        reading, writing = os.pipe()
        self._error_pipe = os.fdopen(reading, "rb", 0)
        try:
            _check_program(command[0], confinement.environment, cwd)
            with supervisor.registration() as registration:

                def start(line: Sequence[str], folder: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
                    return subprocess.Popen(
                        ["/bin/sh", "-c", _START, f"/dev/fd/{writing}", *line],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=registration,
                        cwd=folder,
                        env=dict(env),
                        pass_fds=(writing,),
                        start_new_session=True,
                    )

                self._process = confinement.start(command, cwd, start)
        except OSError as error:
            self._error_pipe.close()
            raise McpError(f"cannot start {command[0]}: {error.strerror or error}") from None
        except BaseException:
            self._error_pipe.close()
            raise
        finally:
            os.close(writing)
        self.pid = self._process.pid
        supervisor.add(self.pid)

    def exit_code(self) -> int | None:
        """The exit code as a shell reports it, or None while it runs."""
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def last_words(self) -> str:
        """The last line that it wrote to standard error, and how it ended, for messages."""
        lines = [line for line in self._errors.decode("utf-8", "replace").splitlines() if line.strip()]
        code = self.exit_code()
        ended = "" if code is None else f"exit code {code}"
        said = f"its last words: {lines[-1].strip()[:500]}" if lines else ""
        return "; ".join(filter(None, (ended, said)))

    @contextlib.asynccontextmanager
    async def connect(self, on_end: Callable[[], None]) -> AsyncGenerator[TransportStreams]:
        """The streams of the SDK's session over its pipes. ``on_end`` is called once, when the connection is gone."""
        import anyio
        from mcp.shared.message import SessionMessage

        arrived, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writing, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        self._on_end = on_end
        work = (self._keep_errors(), self._read(arrived), self._write(outgoing), self._watch())
        tasks = [asyncio.create_task(part) for part in work]
        try:
            yield reading, writing
        finally:
            self._on_end = None  # from now on its end is our doing
            with anyio.CancelScope(shield=True):
                await self.stop()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                for stream in (arrived, reading, writing, outgoing):
                    stream.close()

    async def stop(self) -> None:
        """End the process group: close its input, SIGTERM, SIGKILL, each after a short wait."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        for transport in self._transports:
            transport.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if not await self._ended_within(_GRACE):
                os.killpg(self.pid, signal.SIGTERM)
                await self._ended_within(_TERM_GRACE)
            os.killpg(self.pid, signal.SIGKILL)  # it, or what it left behind
        await self._ended_within(_TERM_GRACE)
        self.release()

    def release(self) -> None:
        """Give back what the process held. A group that is still alive stays with the supervisor."""
        if self.exit_code() is not None:
            self._supervisor.remove(self.pid)
        for stream in (self._process.stdin, self._process.stdout, self._error_pipe):
            if stream is not None and not stream.closed:
                with contextlib.suppress(OSError):
                    stream.close()
        self._confinement.ended()

    async def _ended_within(self, seconds: float) -> bool:
        deadline = asyncio.get_running_loop().time() + seconds
        while self.exit_code() is None:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_LOOK_EVERY)
        return True

    # -- pipes --------------------------------------------------------------------------------------------------

    async def _reader(self, pipe: object) -> asyncio.StreamReader:
        reader = asyncio.StreamReader(limit=_CHUNK)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        self._transports.append(transport)
        return reader

    async def _keep_errors(self) -> None:
        reader = await self._reader(self._error_pipe)
        while data := await reader.read(_CHUNK):
            self._errors = (self._errors + data)[-_KEPT_ERRORS:]
        self._errors_read.set()

    async def _ended(self) -> None:
        """Report the end of the connection, once its exit code and its last words are known or do not come."""
        if await self._ended_within(_LAST_WORDS):
            with contextlib.suppress(TimeoutError):  # something that it started may keep the pipe open
                await asyncio.wait_for(self._errors_read.wait(), _STILL_WRITTEN)
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    async def _read(self, arrived: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        from hermes.service.mcp.transport.repair import repaired

        reader = await self._reader(self._process.stdout)
        lines = _Lines()
        try:
            while data := await reader.read(_CHUNK):
                for line in lines.feed(data):
                    try:
                        message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                    except ValueError:
                        continue  # a banner, or anything else that is not the protocol
                    await arrived.send(repaired(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # our side closed the connection
        except OSError:
            pass
        await self._ended()
        arrived.close()

    async def _write(self, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
        loop = asyncio.get_running_loop()
        transport, pipe = await loop.connect_write_pipe(_WritingEnd, self._process.stdin)
        self._transports.append(transport)
        try:
            async for item in outgoing:
                transport.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await pipe.drained.wait()
                if transport.is_closing():
                    await self._ended()
                    break
        except OSError:
            await self._ended()

    async def _watch(self) -> None:
        """Notice the end of the process even when something that it started keeps its output open."""
        while self.exit_code() is None:
            await asyncio.sleep(0.25)
        await self._ended()


class _WritingEnd(asyncio.BaseProtocol):
    """Our end of the server's input: says when there is room for more."""

    def __init__(self) -> None:
        self.drained = asyncio.Event()
        self.drained.set()

    def pause_writing(self) -> None:
        self.drained.clear()

    def resume_writing(self) -> None:
        self.drained.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.drained.set()


class _Lines:
    """Cuts a stream into lines. Of a line that is too long only the id is kept, to report that its request failed."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        *complete, rest = data.split(b"\n")
        lines = [line for part in complete if (line := self._take(part)).strip()]
        if rest:
            self._keep(rest)
        return lines

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MAX_MESSAGE_BYTES:
            # The id is at one of the two ends.
            self._parts = [self._parts[0][:_ENDS], (self._parts[-1] + part)[-_ENDS:]] if self._parts else [part]
        else:
            self._parts.append(part)

    def _take(self, last: bytes) -> bytes:
        self._keep(last)
        size, parts = self._size, self._parts
        self._size, self._parts = 0, []
        if size <= MAX_MESSAGE_BYTES:
            return b"".join(parts)
        found = _REQUEST_ID.search(parts[0][:_ENDS]) or _REQUEST_ID.search(parts[-1][-_ENDS:])
        if found is None:
            return b""
        text = f"the answer has {size:,} bytes; at most {MAX_MESSAGE_BYTES:,} are taken. Ask for less at once"
        return b'{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"%s"}}' % (found[1], text.encode())


def _check_program(program: str, environment: Mapping[str, str], cwd: str) -> None:
    """``FileNotFoundError`` when there is no such program, ``McpError`` when there is no such folder."""
    try:
        check_program(program, environment, cwd)
    except OSError as error:
        raise FileNotFoundError(error.errno, "no such program; check command, or install it") from None
    if not Path(cwd).is_dir():
        raise McpError(f"cannot start {program}: the folder {cwd} does not exist")
