"""What it costs to be served: a turn called over HTTP against the same turn in process, and many of them at once."""

from __future__ import annotations

import asyncio
import http.client
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from hermes.config import load_config
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
        Host(workspace.folder / "a2a-direct", load_config(home).config, HostOptions(), cwd=workspace.notes) as host,
    ):
        called = _Caller(url, plan.query(), expected_answer(workspace.notes, plan))
        served: list[float] = []
        direct: list[float] = []
        first: list[float] = []
        for number in range(WARM_UP + (workspace.repeat or REPEAT)):
            seconds = called.send(), _direct(host, plan), called.first_status()
            if number >= WARM_UP:
                for kept, value in zip((served, direct, first), seconds, strict=True):
                    kept.append(value * 1e3)
        crowd = asyncio.run(_crowd(url, Plan(hold=MANY).query(), expected_answer(workspace.notes, plan)))
    return [_added(served, direct), _first(first), _many(crowd)]


def _added(served: list[float], direct: list[float]) -> Row:
    added = median(served) - median(direct)
    note = f"{median(served):.1f} ms served, {median(direct):.1f} ms in process"
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
    """A bare client on one connection."""

    def __init__(self, url: str, words: str, answer: str) -> None:
        place = urlsplit(url)
        self._connection = http.client.HTTPConnection(place.hostname or "", place.port or 80, timeout=30)
        self._words = words
        self._answer = answer

    def send(self) -> float:
        """Seconds of a message that waits for its answer."""
        started = time.perf_counter()
        self._connection.request("POST", "/", _body("SendMessage", self._words), _HEADERS)
        task = msgspec.json.decode(self._connection.getresponse().read())["result"]["task"]
        seconds = time.perf_counter() - started
        if task["artifacts"][0]["parts"][0]["text"] != self._answer:
            raise BenchFailed(f"the task answered {task}")
        return seconds

    def first_status(self) -> float:
        """Seconds until a message that streams has its first status."""
        started = time.perf_counter()
        self._connection.request("POST", "/", _body("SendStreamingMessage", self._words), _HEADERS)
        response = self._connection.getresponse()
        while b"statusUpdate" not in response.readline():
            pass
        seconds = time.perf_counter() - started
        response.read()
        return seconds


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
