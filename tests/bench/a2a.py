"""What it costs to be served: a turn called over HTTP against the same turn in process, and many of them at once."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from hermes.base.config import load_config
from hermes.host import Host, HostOptions

from .measure import BenchFailed
from .server import Plan
from .table import Row
from .workspace import Workspace, expected_answer, hermes_command

BUDGET_MS = 3.0
FIRST_EVENT_BUDGET_MS = 20.0
MANY = 200
REPEAT = 100
WARM_UP = 10

_HEADERS = {"A2A-Version": "1.0", "Content-Type": "application/json"}
_SETTINGS = "a2a:\n  max_requests_per_minute: 0\n"


def measure(workspace: Workspace) -> list[Row]:
    """Three rows: what serving adds, how soon a caller hears something, and many callers at once."""
    home = workspace.folder / "a2a-home"
    home.mkdir()
    config = (workspace.home / "config.yaml").read_text(encoding="utf-8")
    (home / "config.yaml").write_text(config + _SETTINGS, encoding="utf-8")
    plan = Plan()
    with (
        _serving(workspace, home) as url,
        closing(_Caller(url, plan.query(), expected_answer(workspace.notes, plan))) as called,
        Host(workspace.folder / "a2a-direct", load_config(home).config, HostOptions(), cwd=workspace.notes) as host,
    ):
        served: list[float] = []
        direct: list[float] = []
        first: list[float] = []
        streamed: list[float] = []
        for number in range(WARM_UP + (workspace.repeat or REPEAT)):
            seconds = called.send(), _direct(host, plan), *called.stream()
            if number >= WARM_UP:
                for kept, value in zip((served, direct, first, streamed), seconds, strict=True):
                    kept.append(value * 1e3)
        crowd = asyncio.run(_crowd(url, Plan(hold=MANY).query(), expected_answer(workspace.notes, plan)))
    return [_added(served, direct, streamed), _first(first), _many(crowd)]


def _added(served: list[float], direct: list[float], streamed: list[float]) -> Row:
    added = median(served) - median(direct)
    note = (
        f"{median(served):.1f} ms served, {median(streamed):.1f} ms as a stream to its end, "
        f"{median(direct):.1f} ms in process"
    )
    what = "what hermes a2a serve adds to a turn, median"
    return Row(what, max(added, 0.0), None, "ms", f"≤ {BUDGET_MS:g} ms", added <= BUDGET_MS, note)


def _first(first: list[float]) -> Row:
    ours = median(first)
    met = ours <= FIRST_EVENT_BUDGET_MS
    what = "from an A2A request to its first status event, median"
    return Row(what, ours, None, "ms", f"≤ {FIRST_EVENT_BUDGET_MS:g} ms", met)


def _many(crowd: list[str]) -> Row:
    errors = [outcome for outcome in crowd if outcome]
    note = f"the first: {errors[0]}" if errors else "every answer right"
    what = f"{MANY} A2A tasks that stream at once, errors"
    return Row(what, len(errors), None, "errors", "0", not errors, note)


def _direct(host: Host, plan: Plan) -> float:
    started = time.perf_counter()
    result = host.new_session().run(plan.query())
    seconds = time.perf_counter() - started
    if result.status != "completed":
        raise BenchFailed(f"the turn {result.status}: {result.error}")
    return seconds


class _Caller:
    """A bare client on one connection: what it costs itself is not what serving costs."""

    def __init__(self, url: str, words: str, answer: str) -> None:
        place = urlsplit(url)
        self._socket = socket.create_connection((place.hostname or "", place.port or 80), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._words = words
        self._answer = answer

    def close(self) -> None:
        self._socket.close()

    def send(self) -> float:
        """Seconds of a message that waits for its answer."""
        request = self._request("SendMessage")
        started = time.perf_counter()
        self._socket.sendall(request)
        head, body = self._read(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        while len(body) < length:
            body += self._socket.recv(65_536)
        task = msgspec.json.decode(body)["result"]["task"]
        seconds = time.perf_counter() - started
        if task["artifacts"][0]["parts"][0]["text"] != self._answer:
            raise BenchFailed(f"the task answered {task}")
        return seconds

    def stream(self) -> tuple[float, float]:
        """Seconds until a message that streams has its first status, and until its stream has ended."""
        request = self._request("SendStreamingMessage")
        started = time.perf_counter()
        self._socket.sendall(request)
        _, rest = self._read(b"statusUpdate")
        first = time.perf_counter() - started
        self._read(b"0\r\n\r\n", rest)
        return first, time.perf_counter() - started

    def _read(self, mark: bytes, so_far: bytes = b"") -> tuple[bytes, bytes]:
        while mark not in so_far:
            so_far += self._socket.recv(65_536)
        before, _, after = so_far.partition(mark)
        return before, after

    def _request(self, method: str) -> bytes:
        body = _body(method, self._words)
        fields = {"Host": "127.0.0.1", **_HEADERS, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST / HTTP/1.1\r\n{lines}\r\n".encode() + body


def _body(method: str, words: str) -> bytes:
    message = {"messageId": f"m-{time.time_ns()}", "role": "ROLE_USER", "parts": [{"text": words}]}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}})


async def _crowd(url: str, words: str, answer: str) -> list[str]:
    """What went wrong with each of many tasks that stream at once; empty for those that were right."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(limits=limits, timeout=60, headers=_HEADERS) as client:
        return await asyncio.gather(*(_one(client, url, words, answer) for _ in range(MANY)))


async def _one(client: httpx.AsyncClient, url: str, words: str, answer: str) -> str:
    try:
        async with client.stream("POST", url, content=_body("SendStreamingMessage", words)) as response:
            lines = [line async for line in response.aiter_lines() if line.startswith("data: ")]
        events: list[dict[str, Any]] = [msgspec.json.decode(line[6:])["result"] for line in lines]
    except (httpx.HTTPError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    chunks = [event["artifactUpdate"]["artifact"]["parts"][0]["text"] for event in events if "artifactUpdate" in event]
    state = events[-1].get("statusUpdate", {}).get("status", {}).get("state") if events else "nothing"
    return "" if (state, "".join(chunks)) == ("TASK_STATE_COMPLETED", answer) else f"it ended as {state}"


@contextmanager
def _serving(workspace: Workspace, home: Path) -> Generator[str]:
    env = {**workspace.environment(), "HERMES_HOME": str(home)}
    command = [*hermes_command(), "a2a", "serve"]
    with subprocess.Popen(command, env=env, cwd=workspace.notes, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            if not url:
                raise BenchFailed("hermes a2a serve did not start")
            yield url
        finally:
            server.terminate()
            server.wait()
