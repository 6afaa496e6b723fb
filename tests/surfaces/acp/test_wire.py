"""The wire of the Agent Client Protocol: lines in pieces, lines that are no messages, and an editor that is gone."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt
from hermes.surfaces.acp import wire
from hermes.surfaces.acp.wire import EditorConnection, Params, RpcError, RpcReply
from hermes.testing import ScriptedProvider, hanging
from support import hermes_environment, write_config
from support.configured import write_plugin
from support.waiting import wait_until


def answers(data: bytes, **handlers: Any) -> list[dict[str, Any]]:
    """What a connection writes when it reads ``data``."""
    sink = io.BytesIO()
    EditorConnection(io.BytesIO(data), sink, handlers).run()
    return [msgspec.json.decode(line) for line in sink.getvalue().splitlines()]


def echo(params: Params, _reply: RpcReply) -> Any:
    if "fail" in params:
        raise RpcError(7, "as asked")
    if "break" in params:
        raise KeyError("gone")
    return params


def test_requests_are_answered_and_notifications_are_not() -> None:
    data = (
        b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1}}\n\n'
        b'{"jsonrpc":"2.0","method":"echo","params":{"a":2}}\n'
        b'{"jsonrpc":"2.0","id":"x","method":"echo"}\n'
        b'{"jsonrpc":"2.0","id":2,"method":"nothing"}\n'
        b'{"jsonrpc":"2.0","id":3,"method":"echo","params":[1]}\n'
        b'{"jsonrpc":"2.0","id":4,"method":"echo","params":{"fail":1}}\n'
        b'{"jsonrpc":"2.0","id":5,"method":"echo","params":{"break":1}}\n'
    )
    found = answers(data, echo=echo)
    assert found[:2] == [
        {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}},
        {"jsonrpc": "2.0", "id": "x", "result": {}},
    ]
    assert [(one["id"], one["error"]["code"]) for one in found[2:]] == [(2, -32601), (3, -32602), (4, 7), (5, -32603)]


def test_what_is_no_message_is_refused_and_reading_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_LINE_BYTES", 100)
    good = b'{"jsonrpc":"2.0","id":1,"method":"echo"}\n'
    data = b"not json\n" + b"[1,2]\n" + b"\xff\xfe\n" + b"x" * 1_000 + b"\n" + b'{"id":9,"result":1}\n' + good
    found = answers(data, echo=echo)
    assert [one.get("error", {}).get("code") for one in found] == [-32700, -32700, -32700, -32600, None]
    assert found[-1]["id"] == 1


def test_a_message_may_arrive_in_pieces_and_without_a_last_line_break() -> None:
    reading, writing = os.pipe()
    sink = io.BytesIO()
    source = os.fdopen(reading, "rb")
    thread = threading.Thread(target=EditorConnection(source, sink, {"echo": echo}).run)
    thread.start()
    for piece in (b'{"jsonrpc":"2.0","id":1,', b'"method":', b'"echo"}\n{"jsonrpc":"2.0","id":2,"method":"echo"}'):
        os.write(writing, piece)
    os.close(writing)
    thread.join(60)
    source.close()
    assert [msgspec.json.decode(line)["id"] for line in sink.getvalue().splitlines()] == [1, 2]


def test_a_question_ends_when_the_editor_is_gone() -> None:
    reading, writing = os.pipe()
    source = os.fdopen(reading, "rb")
    connection = EditorConnection(source, io.BytesIO(), {})
    thread = threading.Thread(target=connection.run)
    thread.start()
    asked = threading.Timer(0.05, lambda: os.close(writing))
    asked.start()
    with pytest.raises(HermesError, match="the editor is gone"):
        connection.ask("session/request_permission", {}, Interrupt())
    thread.join(60)
    source.close()
    with pytest.raises(HermesError, match="the editor is gone"):
        connection.ask("session/request_permission", {}, Interrupt())


def start(home: Path, workdir: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "hermes", "acp"],
        cwd=workdir,
        env=hermes_environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def send(process: subprocess.Popen[bytes], **message: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode({"jsonrpc": "2.0", **message}) + b"\n")
    process.stdin.flush()


def test_standard_output_has_the_protocol_alone_and_the_end_of_input_ends_it(home: Path, workdir: Path) -> None:
    noisy = (
        "import os\nprint('hello from a plugin')\nos.write(1, b'raw words')\ndef register(ctx):\n    print('again')\n"
    )
    write_plugin(home, "noisy", noisy)
    with ScriptedProvider([hanging()]) as provider:
        write_config(home, provider.base_url, "plugins:\n  enabled: [noisy]\n")
        process = start(home, workdir)
        send(process, id=1, method="initialize", params={"protocolVersion": 1})
        send(process, id=2, method="session/new", params={"cwd": str(workdir), "mcpServers": []})
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        session_id = msgspec.json.decode(lines[1])["result"]["sessionId"]
        blocks = [{"type": "text", "text": "wait"}]
        send(process, id=3, method="session/prompt", params={"sessionId": session_id, "prompt": blocks})
        wait_until(lambda: provider.requests)
        # The editor dies in the middle of a prompt.
        rest, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"hello from a plugin" in errors and b"raw words" in errors
    for line in [*lines, *rest.splitlines()]:
        assert msgspec.json.decode(line)["jsonrpc"] == "2.0"
