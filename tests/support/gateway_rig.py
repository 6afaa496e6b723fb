"""A gateway on a thread or as a process, with the platform of lines, a scripted model, and a client for it."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hermes.base.config.schema.gateway import GatewayConfig, GatewayPlatformConfig
from hermes.base.config.schema.sections import WorkerConfig
from hermes.base.http_server.stopping import StopEvent
from hermes.host import Host
from hermes.surfaces.gateway.gateway import Gateway, GatewayService
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text
from support import line_platform, start_hermes, write_config
from support.configured import configured_host
from support.waiting import HANG, wait_for, wait_until


def answer_itself(request: RecordedRequest) -> ScriptedReply:
    """A model that repeats what was said."""
    return text(f"Answer to {request.last_user_text}")


class SwitchedProvider(ScriptedProvider):
    """A scripted model whose script a test may change."""

    def __init__(self) -> None:
        def choose(request: RecordedRequest) -> Any:
            return self.script(request)

        super().__init__(choose)
        self.script: Callable[[RecordedRequest], Any] = answer_itself


class LineClient:
    """A client of the platform of lines: sends messages, and collects what was acknowledged and sent."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=HANG)
        self.acknowledged: list[str] = []
        self.received: list[dict[str, Any]] = []
        self._numbers = 0
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            with self._socket.makefile("r", encoding="utf-8") as lines:
                for line in lines:
                    document = json.loads(line)
                    with self._changed:
                        if "ack" in document:
                            self.acknowledged.append(document["ack"])
                        else:
                            self.received.append(document)
                        self._changed.notify_all()
        except (OSError, ValueError):
            pass  # the other end is gone

    def say(self, text: str, chat: str = "alice", **fields: Any) -> str:
        """Send a message; its id. It need not be acknowledged yet."""
        self._numbers += 1
        message_id = str(fields.pop("id", f"m{self._numbers}"))
        document = {"chat": chat, "text": text, "id": message_id, **fields}
        self._socket.sendall(json.dumps(document).encode() + b"\n")
        return message_id

    def wait(self, condition: Callable[[LineClient], object], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self), HANG), f"waited in vain: {what}: {self.received}"

    def accepted(self, message_id: str) -> None:
        self.wait(lambda _: message_id in self.acknowledged, f"the acknowledgement of {message_id}")

    def texts(self, chat: str = "alice") -> list[str]:
        return [one["text"] for one in self.received if one["to"] == chat]

    def hear(self, count: int = 1, chat: str = "alice") -> list[str]:
        """The first messages to a chat, once there are so many."""
        self.wait(lambda _: len(self.texts(chat)) >= count, f"{count} messages to {chat}")
        return self.texts(chat)

    def ask(self, text: str, chat: str = "alice", **fields: Any) -> str:
        """Send a message and return the next message to its chat."""
        before = len(self.texts(chat))
        self.say(text, chat, **fields)
        return self.hear(before + 1, chat)[before]

    def close(self) -> None:
        self._socket.close()


class RunningGateway:
    """One gateway on a thread of its own."""

    def __init__(self, host: Host, platforms: Sequence[str], services: Sequence[GatewayService] = ()) -> None:
        self.host = host
        self.gateway = Gateway(host, platforms, services=services, first_pause=0.02)
        #: The lines that the owner sees.
        self.reported: list[str] = []
        self._stop: StopEvent | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        wait_for(self._started, "the start of the gateway")

    async def _run(self) -> None:
        self._stop, self._loop = StopEvent(), asyncio.get_running_loop()
        await self.gateway.run(self._stop, started=self._started.set, report=self.reported.append)

    def on_loop(self, work: Any) -> Any:
        """Run a coroutine on the loop of the gateway, and return its result."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(HANG)

    def ask_to_stop(self) -> None:
        """Ask the gateway to stop, as a signal does."""
        assert self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)

    def stop(self) -> None:
        if self._thread.is_alive():
            self.ask_to_stop()
            self._thread.join(HANG)
            assert not self._thread.is_alive(), "the gateway did not stop"
        self.host.close()


class GatewayRig:
    """A home, a scripted model, and gateways on it, one after the other."""

    def __init__(self, home: Path, workdir: Path, provider: ScriptedProvider) -> None:
        self.home, self.workdir, self.provider = home, workdir, provider
        self.port_file = home.parent / "port"
        self.running: list[RunningGateway] = []
        self.clients: list[LineClient] = []

    def start(
        self,
        *,
        plugins: Sequence[object] = (),
        platforms: Sequence[str] = ("line",),
        line: dict[str, Any] | None = None,
        worker: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        others: dict[str, GatewayPlatformConfig] | None = None,
        sections: dict[str, Any] | None = None,
        services: Sequence[GatewayService] = (),
        **settings: Any,
    ) -> RunningGateway:
        """Start a gateway. Everyone may talk to it, and alice is the owner, unless ``line`` says otherwise."""
        self.port_file.unlink(missing_ok=True)
        extra = {"port_file": str(self.port_file)}
        named: dict[str, Any] = {"allowed_users": ["*"], "owners": ["alice"], **(line or {}), "extra": extra}
        chosen: dict[str, Any] = {"max_messages_per_minute": 0, **settings}
        config = GatewayConfig(platforms={"line": GatewayPlatformConfig(**named), **(others or {})}, **chosen)
        host = configured_host(
            *(self.home, self.workdir, self.provider),
            options={
                "platform": "gateway",
                "platforms": platforms,
                "unattended": True,
                "plugin_objects": [line_platform, *plugins],
                **(options or {}),
            },
            gateway=config,
            worker=WorkerConfig(**(worker or {"slots": 4})),
            **(sections or {}),
        )
        running = RunningGateway(host, platforms, services)
        self.running.append(running)
        return running

    def client(self) -> LineClient:
        wait_until(lambda: self.port_file.exists() and self.port_file.read_text().endswith("\n"), "the platform")
        client = LineClient(int(self.port_file.read_text()))
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
        for running in self.running:
            running.stop()


def add_line_platform(home: Path, port_file: Path) -> None:
    """Make the platform of lines a plugin of the home: everyone may talk to it, and alice is the owner."""
    with (home / "config.yaml").open("a") as config:
        config.write(
            "plugins: {enabled: [line]}\ngateway:\n  max_messages_per_minute: 0\n  platforms:\n"
            f"    line: {{owners: [alice], allowed_users: ['*'], extra: {{port_file: '{port_file}'}}}}\n"
        )
    folder = home / "plugins" / "line"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: line\nkind: platform\n")
    (folder / "__init__.py").write_text(Path(line_platform.__file__).read_text())


class GatewayProcesses:
    """``hermes gateway run`` as processes, one after the other, with the platform of lines as a plugin of the home."""

    def __init__(self, home: Path, workdir: Path, provider: SwitchedProvider, *, slots: int = 8) -> None:
        self.home, self.workdir = home, workdir
        self.port_file = home.parent / "port"
        self.started: list[subprocess.Popen[str]] = []
        write_config(home, provider.base_url, f"worker: {{slots: {slots}}}\n")
        add_line_platform(home, self.port_file)

    def launch(self) -> subprocess.Popen[str]:
        """Start a process, which may end before a client can connect to it."""
        self.port_file.unlink(missing_ok=True)
        process = start_hermes("gateway", "run", home=self.home, cwd=self.workdir)
        self.started.append(process)
        return process

    def start(self) -> LineClient:
        process = self.launch()
        wait_until(
            lambda: (
                process.poll() is not None or (self.port_file.exists() and self.port_file.read_text().endswith("\n"))
            ),
            "the platform",
        )
        assert process.poll() is None
        return LineClient(int(self.port_file.read_text()))

    def close(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()

    def kill(self) -> None:
        self.started[-1].kill()
        self.started[-1].wait()
