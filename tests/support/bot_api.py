"""A Telegram Bot API server for one bot, faithful enough for the official client library too."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from support.waiting import HANG

TOKEN = "123456:test-token_of-the-bot"
BOT = {"id": 123456, "is_bot": True, "first_name": "Hermes", "username": "hermes_test_bot"}


class BotApiServer:
    """Keeps updates until they are acknowledged by an offset, and everything that the bot does."""

    def __init__(self) -> None:
        self.updates: list[dict[str, Any]] = []
        #: Methods with their parameters, in the order of the calls, without polls.
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.polls = 0
        #: Answers to give once, by method: an error code, a description and parameters.
        self.errors: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}
        self._changed = threading.Condition()
        self._next_update = 1000
        self._next_message = 1
        self._is_closing = False
        #: Files that can be fetched, by their id.
        self.files: dict[str, bytes] = {}
        self.base_url = ""

    def say(self, text: str, *, chat: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
        """A person sends a message; the update."""
        with self._changed:
            self._next_update += 1
            self._next_message += 1
            message: dict[str, Any] = {
                "message_id": self._next_message,
                "date": 1_790_000_000,
                "chat": chat or {"id": 42, "type": "private", "first_name": "Ann"},
                "from": {"id": 42, "is_bot": False, "first_name": "Ann", "last_name": "Lee", "username": "ann"},
                **({"text": text} if text else {}),
                **fields,
            }
            update = {"update_id": self._next_update, "message": message}
            self.updates.append(update)
            self._changed.notify_all()
            return update

    def push(self, update: dict[str, Any]) -> None:
        """Queue an update of any form."""
        with self._changed:
            self.updates.append(update)
            self._changed.notify_all()

    def called(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every call of a method."""
        return [parameters for name, parameters in self.calls if name == method]

    def answer(self, method: str, parameters: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.errors.get(method):
            code, description, more = self.errors[method].pop(0)
            return code, {"ok": False, "error_code": code, "description": description, "parameters": more}
        if method == "getUpdates":
            return 200, {"ok": True, "result": self._poll(parameters)}
        self.calls.append((method, parameters))
        results: dict[str, Any] = {
            "getMe": BOT,
            "getChat": {"id": parameters.get("chat_id"), "type": "private", "first_name": "Ann"},
        }
        if method == "getFile":
            file_id = str(parameters["file_id"])
            path = {"file_id": file_id, "file_unique_id": file_id, "file_path": f"documents/{file_id}"}
            return 200, {"ok": True, "result": path}
        if method in ("sendMessage", "editMessageText"):
            return 200, {"ok": True, "result": self._message(parameters)}
        return 200, {"ok": True, "result": results.get(method, True)}

    def _message(self, parameters: dict[str, Any]) -> dict[str, Any]:
        self._next_message += 1
        chat = {"id": int(parameters["chat_id"]), "type": "private", "first_name": "Ann"}
        text = {"text": parameters["text"]}
        return {"message_id": self._next_message, "date": 1_790_000_000, "chat": chat, "from": BOT, **text}

    def _poll(self, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        offset, seconds = int(parameters.get("offset") or 0), float(parameters.get("timeout") or 0)
        with self._changed:
            self.polls += 1
            self.updates[:] = [update for update in self.updates if update["update_id"] >= offset]
            self._changed.wait_for(lambda: self.updates or self._is_closing, min(seconds, HANG))
            return list(self.updates)

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()


@contextmanager
def bot_api() -> Generator[BotApiServer]:
    """The server on a loopback port."""
    state = BotApiServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            _, prefix, method = urlsplit(self.path).path.split("/", 2)
            if prefix != f"bot{TOKEN}":
                self._send(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
            elif "json" in self.headers.get("content-type", ""):
                self._send(*state.answer(method, json.loads(body or b"{}")))
            else:
                self._send(*state.answer(method, dict(parse_qsl(body.decode()))))

        def do_GET(self) -> None:
            file_id = self.path.removeprefix(f"/file/bot{TOKEN}/documents/")
            data = state.files.get(file_id)
            self.send_response(404 if data is None else 200)
            self.send_header("content-length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def _send(self, status: int, answer: dict[str, Any]) -> None:
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            with suppress(OSError):  # the client no longer waits
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    state.base_url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        state.close()
        server.shutdown()
        thread.join()
        server.server_close()
