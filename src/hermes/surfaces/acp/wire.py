"""JSON-RPC 2.0 over a pair of streams, one message in each line: the wire of the Agent Client Protocol."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from typing import Any, BinaryIO, cast

import msgspec

from hermes.base.errors import HermesError, SessionNotFound
from hermes.base.scope import Interrupt

log = logging.getLogger("hermes.acp")

#: A longer line is refused: an editor that sends it has lost its way.
MAX_LINE_BYTES = 64_000_000

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NOT_FOUND = -32002

Params = dict[str, Any]
#: Handles a request or a notification. What it returns is the result; ``LATER`` is for one that answers by itself.
Handler = Callable[[Params, "RpcReply"], Any]


#: The result comes later, by ``RpcReply``.
LATER = object()


class RpcError(HermesError):
    """An error that is the answer to a request."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Message(msgspec.Struct):
    method: str | None = None
    params: Any = None
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    result: Any = None
    error: Any = None


class RpcReply:
    """The one answer to a request; a notification has none."""

    def __init__(self, connection: EditorConnection, request_id: int | str | msgspec.UnsetType | None) -> None:
        self._connection = connection
        self._id = request_id

    def send(self, result: Any) -> None:
        """Answer with a result."""
        self._put({"result": result})

    def fail(self, code: int, message: str) -> None:
        """Answer with an error."""
        self._put({"error": {"code": code, "message": message}})

    def _put(self, body: dict[str, Any]) -> None:
        if self._id is not msgspec.UNSET:
            self._connection.put({"jsonrpc": "2.0", "id": self._id, **body})


class EditorConnection:
    """Both directions of one connection. Writing is thread-safe; ``run`` reads until the end."""

    def __init__(self, source: BinaryIO, sink: BinaryIO, handlers: dict[str, Handler]) -> None:
        self._source = source
        self._sink = sink
        self._handlers = handlers
        self._writing = threading.Lock()
        self._asked: dict[int, Future[Any]] = {}
        self._next_id = 0
        self.closed = False

    # -- writing ------------------------------------------------------------------------------------------------

    def put(self, message: dict[str, Any]) -> None:
        """Write one message. When the other side is gone nothing happens: reading ends too."""
        line = msgspec.json.encode(message, enc_hook=str) + b"\n"
        with self._writing:
            try:
                self._sink.write(line)
                self._sink.flush()
            except (OSError, ValueError):
                self.closed = True

    def notify(self, method: str, params: Params) -> None:
        """Send a notification."""
        self.put({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Params, interrupt: Interrupt) -> Any:
        """Send a request and wait for its result. Cancelling the interrupt ends the wait with ``Interrupted``."""
        future: Future[Any] = Future()
        with self._writing:
            self._next_id += 1
            request_id = self._next_id
            self._asked[request_id] = future
        forget = interrupt.add_callback(lambda: _cancel(future))
        try:
            if self.closed:
                raise HermesError("the editor is gone")
            self.put({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            return future.result()
        except CancelledError:
            interrupt.check()
            raise HermesError("the editor is gone") from None
        finally:
            forget()
            self._asked.pop(request_id, None)

    # -- reading ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Read and handle messages until the other side closes its end."""
        try:
            while line := self._source.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES:
                    self._skip_line(line)
                    self._refuse(INVALID_REQUEST, f"a message has more than {MAX_LINE_BYTES:,} bytes")
                elif line.strip():
                    self._take(line)
        except (OSError, ValueError):
            pass  # the stream was closed under us
        finally:
            self.closed = True
            for future in list(self._asked.values()):
                _cancel(future)

    def _skip_line(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._source.readline(MAX_LINE_BYTES)

    def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line, type=_Message)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._refuse(PARSE_ERROR, f"not a JSON-RPC message: {error}")
            return
        if message.method is None:
            self._take_answer(message)
            return
        reply = RpcReply(self, message.id)
        handler = self._handlers.get(message.method)
        if handler is None:
            reply.fail(NO_METHOD, f"there is no method {message.method!r}")
            return
        params: object = {} if message.params is None else message.params
        if not isinstance(params, dict):
            reply.fail(INVALID_PARAMS, "params is not an object")
            return
        try:
            result = handler(fields_of(cast("object", params)), reply)
        except RpcError as error:
            reply.fail(error.code, str(error))
        except HermesError as error:
            reply.fail(NOT_FOUND if isinstance(error, SessionNotFound) else INTERNAL, str(error))
        except Exception as error:
            log.exception("%s failed", message.method)
            reply.fail(INTERNAL, f"{type(error).__name__}: {error}")
        else:
            if result is not LATER:
                reply.send(result)

    def _take_answer(self, message: _Message) -> None:
        future = self._asked.pop(message.id, None) if isinstance(message.id, int) else None
        if future is None:
            return
        with suppress(InvalidStateError):  # it was cancelled, perhaps at this moment
            if message.error is not None:
                future.set_exception(HermesError(f"the editor answered with an error: {str(message.error)[:300]}"))
            else:
                future.set_result(message.result)

    def _refuse(self, code: int, text: str) -> None:
        self.put({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}})


def fields_of(value: object) -> Params:
    """A JSON object; empty for anything else."""
    return cast("Params", value) if isinstance(value, dict) else {}


def _cancel(future: Future[Any]) -> None:
    future.cancel()
