"""How many functions of Hermes one warm message runs through, and how many calls it takes: what a reader has to follow.

A budget that is missed means that something was added to every message. Ask first whether each message needs it.
"""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

import hermes
from hermes.agent.events import TurnResult
from hermes.base.config import Config
from hermes.base.config.schema.sections import ModelConfig
from hermes.host import Host, HostOptions

_PACKAGE = f"{Path(hermes.__file__).parent}/"
_NOT_COUNTED = ("<module>", "<lambda>", "<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")
#: How often the process of a command is looked at depends on how long that takes.
_DEPENDS_ON_TIME = f"{_PACKAGE}tools/terminal/child_process.py"


class Calls:
    """Counts the calls of functions of the package, in every thread that begins while it does."""

    def __init__(self) -> None:
        self.by_function: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name in _NOT_COUNTED or code.co_filename == _DEPENDS_ON_TIME:
            return
        if code.co_filename.startswith(_PACKAGE):
            self.by_function[f"{code.co_filename.removeprefix(_PACKAGE)}:{code.co_qualname}"] += 1

    @contextmanager
    def counting(self) -> Generator[None]:
        before = threading.getprofile()
        gc.collect()
        gc.disable()  # what other tests left behind is not part of the message
        threading.setprofile(self)
        try:
            yield
        finally:
            threading.setprofile(before)
            gc.enable()


class _Model:
    """A model server that sends each answer in one piece, so that it always arrives in one."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # closed
        with connection, connection.makefile("rb") as stream:
            while (line := stream.readline()) != b"":
                length = 0
                while line not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                    line = stream.readline()
                connection.sendall(_response(msgspec.json.decode(stream.read(length))))

    def close(self) -> None:
        self._listener.close()


def _response(request: dict[str, Any]) -> bytes:
    """An answer in words, or first the call that the message asks for: ``CALL name {arguments}``."""
    *_, last = request["messages"]
    asked: str = last["content"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if last["role"] == "user" and asked.startswith("CALL "):
        _, name, arguments = asked.split(" ", 2)
        function = {"name": name, "arguments": arguments}
        deltas.append({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
        reason = "tool_calls"
    else:
        deltas.append({"content": "warm"})
        reason = "stop"
    choices: list[list[dict[str, Any]]] = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": reason}])
    usage = {"prompt_tokens": 900, "completion_tokens": 5, "total_tokens": 905}
    shared = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    events = [{**shared, "choices": choice} for choice in choices] + [{**shared, "choices": [], "usage": usage}]
    body = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events) + b"data: [DONE]\n\n"
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture
def host(home: Path, workdir: Path) -> Generator[Host]:
    model = _Model()
    config = Config(model=ModelConfig(provider="custom", default="scripted", base_url=model.base_url, api_key="key"))
    with Host(home, config, HostOptions(allow_everything=True), cwd=workdir, env={}) as made:
        yield made
    model.close()


@pytest.mark.parametrize(
    ("message", "functions", "calls"),
    [
        pytest.param("SAY warm", 280, 475, id="say"),
        # 45 of these calls only while the file is so new that its time stamps say nothing.
        pytest.param('CALL read_file {"path": "note.txt"}', 420, 985, id="read"),
        # In a sandbox, where the machine has one.
        pytest.param('CALL terminal {"command": "cat note.txt"}', 600, 1450, id="command"),
    ],
)
def test_a_warm_message_stays_within_its_budget(
    host: Host, workdir: Path, monkeypatch: pytest.MonkeyPatch, message: str, functions: int, calls: int
) -> None:
    for name in set(os.environ) - {"HOME", "PATH"}:  # a command is given each variable that holds no secret
        monkeypatch.delenv(name)
    (workdir / "note.txt").write_text("a note\n")
    session = host.new_session()
    for text in ("SAY warm", message):
        session.run(text)
    counted, results = Calls(), list[TurnResult]()
    # Not on the main thread, which looks for signals while it waits.
    turn = threading.Thread(target=lambda: results.append(session.run(message)))
    with counted.counting():
        turn.start()
        turn.join()
    [result] = results
    assert (result.status, result.answer) == ("completed", "warm")
    made = len(counted.by_function), counted.by_function.total()
    assert made[0] <= functions, counted.by_function
    assert made[1] <= calls, counted.by_function
