"""A chat platform on loopback for tests: lines of JSON over TCP, a message is acknowledged once it was accepted.

Also a plugin: the folder of a home may have this file as its ``__init__.py``.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from hermes.surfaces.gateway.adapter import BasePlatformAdapter, MessageEvent, PlatformConfig, SendResult


class LineAdapter(BasePlatformAdapter):
    """Every client sees everything that is sent, and sends messages of any user."""

    def __init__(self, config: PlatformConfig, name: str = "line") -> None:
        super().__init__(config, name)
        self.writers: set[asyncio.StreamWriter] = set()
        self.server: asyncio.Server | None = None

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", int(self.config.extra.get("port", 0)))
        port = self.server.sockets[0].getsockname()[1]
        self.config.extra["port"] = port
        Path(self.config.extra["port_file"]).write_text(f"{port}\n")
        self._mark_connected()
        return True

    async def disconnect(self) -> None:
        if self.server is not None:
            self.server.close()
            for writer in self.writers:
                writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while line := await reader.readline():
                asked: dict[str, Any] = json.loads(line)
                event = MessageEvent(
                    asked["text"],
                    source=self.build_source(
                        chat_id=asked["chat"],
                        chat_type=asked.get("type", "dm"),
                        user_id=asked.get("user", asked["chat"]),
                        user_name=asked.get("name", asked.get("user", asked["chat"])),
                        thread_id=asked.get("thread"),
                    ),
                    message_id=asked.get("id"),
                )
                await self.handle_message(event)
                self.write(writer, {"ack": asked.get("id")})
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        if not self.writers:
            return SendResult(False, error="no client is connected", retryable=True, retry_after=0.05)
        for writer in self.writers:
            self.write(writer, {"to": chat_id, "text": content, "reply_to": reply_to, **(metadata or {})})
        return SendResult(True, message_id="sent")

    def write(self, writer: asyncio.StreamWriter, document: dict[str, Any]) -> None:
        writer.write(json.dumps(document).encode() + b"\n")

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {"name": chat_id, "type": "dm"}


def register(ctx: Any) -> None:
    ctx.register_platform("line", "Lines", LineAdapter, lambda: True)
