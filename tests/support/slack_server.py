"""A server with the parts of Slack that an app uses: the Web API and Socket Mode. Slack's own SDK accepts it, too."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from support.chat_servers import free_port
from support.waiting import wait_until

BOT_TOKEN = "xoxb-0123456789-bot"
APP_TOKEN = "xapp-0123456789-app"
OWN_USER = "UBOT"


class SlackServer:
    """Keeps what the app does, and sends it events over its sockets."""

    def __init__(self) -> None:
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}/api"
        #: Methods with their parameters, in the order of the calls.
        self.calls: list[tuple[str, dict[str, Any]]] = []
        #: What the app acknowledged, in order.
        self.acknowledged: list[str] = []
        self.connections = 0
        #: Errors to answer with once, by method: a status, an error and headers.
        self.errors: dict[str, list[tuple[int, str, dict[str, str]]]] = {}
        self._sockets: list[WebSocket] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sent = 0
        #: Whether what is sent while the app is away is kept for it; otherwise sending waits for a socket.
        self.keeps_messages = False
        self._kept: list[dict[str, Any]] = []
        #: Files that can be fetched with the token of the bot, by their name.
        self.files: dict[str, bytes] = {}

    def called(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every call of a method."""
        return [parameters for name, parameters in self.calls if name == method]

    def push(self, kind: str, payload: dict[str, Any]) -> str:
        """Send an envelope to the newest socket; its id."""
        self._sent += 1
        envelope = {"envelope_id": f"envelope-{self._sent}", "type": kind, "payload": payload}
        self.send(envelope)
        return str(envelope["envelope_id"])

    def send(self, message: dict[str, Any]) -> None:
        """Send any message to the newest socket."""
        if self.keeps_messages and not self._sockets:
            self._kept.append(message)
            return
        wait_until(lambda: self._sockets, "a socket of the app")
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._sockets[-1].send_text(json.dumps(message)), self._loop).result(60)

    def say(self, text: str, **fields: Any) -> str:
        """A person writes to the app directly; the id of the envelope."""
        event = {"type": "message", "channel": "D1", "channel_type": "im", "user": "UANN", "ts": "1.1", "text": text}
        return self.push("events_api", {"type": "event_callback", "team_id": "T1", "event": {**event, **fields}})

    async def api(self, request: Request) -> JSONResponse:
        self._loop = asyncio.get_running_loop()
        method, body = request.path_params["method"], await request.body()
        is_json = "json" in request.headers.get("content-type", "")
        parameters = json.loads(body or b"{}") if is_json else dict(parse_qsl(body.decode()))
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("authorization") != f"Bearer {wanted}":
            return JSONResponse({"ok": False, "error": "invalid_auth"})
        self.calls.append((method, parameters))
        if self.errors.get(method):
            status, error, headers = self.errors[method].pop(0)
            return JSONResponse({"ok": False, "error": error}, status, headers)
        answers: dict[str, dict[str, Any]] = {
            "auth.test": {"user_id": OWN_USER, "user": "hermes", "team": "Garden", "team_id": "T1"},
            "apps.connections.open": {"url": f"ws://127.0.0.1:{self.port}/link?ticket=socket-ticket"},
            "chat.postMessage": {"channel": parameters.get("channel"), "ts": f"{len(self.calls)}.5", "message": {}},
            "users.info": {"user": {"id": parameters.get("user"), "name": "ann", "real_name": "Ann Lee"}},
            "conversations.info": {"channel": {"id": "C1", "name": "garden", "is_im": False}},
        }
        return JSONResponse({"ok": True, **answers.get(method, {})})

    async def file(self, request: Request) -> Response:
        data = self.files.get(request.path_params["name"])
        allowed = request.headers.get("authorization") == f"Bearer {BOT_TOKEN}"
        return Response(data) if allowed and data is not None else Response(status_code=403)

    async def link(self, socket: WebSocket) -> None:
        assert socket.query_params["ticket"] == "socket-ticket"
        await socket.accept()
        await socket.send_text(json.dumps({"type": "hello", "num_connections": 1}))
        self._sockets.append(socket)
        self.connections += 1
        while self._kept:
            await socket.send_text(json.dumps(self._kept.pop(0)))
        try:
            while True:
                self.acknowledged.append(json.loads(await socket.receive_text())["envelope_id"])
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            self._sockets.remove(socket)

    def hang_up(self) -> None:
        """Close the newest socket."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._sockets[-1].close(1012), self._loop).result(60)


@contextmanager
def slack_server() -> Generator[SlackServer]:
    """The server on a loopback port."""
    state = SlackServer()
    app = Starlette(
        routes=[
            Route("/api/{method}", state.api, methods=["POST", "GET"]),
            Route("/files/{name}", state.file),
            WebSocketRoute("/link", state.link),
        ]
    )
    config = uvicorn.Config(
        app, "127.0.0.1", state.port, log_config=None, lifespan="off", ws="wsproto", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server")
    try:
        yield state
    finally:
        server.should_exit = True
        thread.join(60)
