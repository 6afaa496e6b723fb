"""The scripted provider, used with a plain HTTP client."""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

import hermes.testing
from hermes.testing import (
    Call,
    RecordedRequest,
    ScriptedProvider,
    ScriptedReply,
    by_step,
    dropped,
    failure,
    hanging,
    raw,
    reasoning,
    text,
    tool_call,
    tool_calls,
)
from hermes.testing.scripted.server import main as run_scripted


@pytest.fixture
def client() -> Generator[httpx2.Client]:
    with httpx2.Client(timeout=60, trust_env=False) as client:
        yield client


def post(client: httpx2.Client, provider: ScriptedProvider, question: str = "hi", **body: Any) -> httpx2.Response:
    messages = [{"role": "user", "content": question}]
    return client.post(f"{provider.base_url}/chat/completions", json={"messages": messages, **body})


def content(response: httpx2.Response) -> str:
    return response.json()["choices"][0]["message"]["content"]


def stream_of(response: httpx2.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


# -- scripts --------------------------------------------------------------------------------------------------------


def test_a_list_is_used_in_order_and_says_when_it_is_spent(client: httpx2.Client) -> None:
    with ScriptedProvider(["one", text("two")]) as provider:
        assert content(post(client, provider)) == "one"
        assert content(post(client, provider)) == "two"
        spent = post(client, provider)
    assert spent.status_code == 500
    assert spent.json()["error"]["message"] == "the script has run out: no reply for request 3"


def test_one_reply_serves_every_request(client: httpx2.Client) -> None:
    with ScriptedProvider("always") as provider:
        assert [content(post(client, provider)) for _ in range(3)] == ["always"] * 3
        assert provider.connections == 1


def test_a_mapping_goes_by_the_last_user_text(client: httpx2.Client) -> None:
    with ScriptedProvider({"a": "A", "b": ["B1", "B2"]}) as provider:
        assert [content(post(client, provider, question)) for question in "abab"] == ["A", "B1", "A", "B2"]
        assert "no reply scripted for 'c'" in post(client, provider, "c").text
    parts = [{"type": "text", "text": "a"}]
    assert (
        RecordedRequest(1, "POST", "/", {}, {"messages": [{"role": "user", "content": parts}]}, 0).last_user_text == "a"
    )


def test_a_function_sees_the_request(client: httpx2.Client) -> None:
    def answer(request: RecordedRequest) -> str:
        if request.body.get("fail"):
            raise LookupError("nope")
        return request.last_user_text.upper()

    with ScriptedProvider(answer) as provider:
        assert content(post(client, provider, "loud")) == "LOUD"
        assert "LookupError: nope" in post(client, provider, fail=True).text


def test_by_step_goes_by_the_turn(client: httpx2.Client) -> None:
    with ScriptedProvider(by_step(tool_call("ls"), "done")) as provider:
        url = f"{provider.base_url}/chat/completions"
        history: list[dict[str, Any]] = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "y"},
            {"role": "user", "content": "z"},
        ]
        assert client.post(url, json={"messages": history}).json()["choices"][0]["finish_reason"] == "tool_calls"
        history += [{"role": "assistant"}, {"role": "tool"}]
        assert content(client.post(url, json={"messages": history})) == "done"
        history += [{"role": "assistant"}]
        assert client.post(url, json={"messages": history}).status_code == 500


# -- replies --------------------------------------------------------------------------------------------------------


def test_a_text_streams_word_by_word_or_as_told(client: httpx2.Client) -> None:
    def pieces(reply: ScriptedReply) -> list[str]:
        with ScriptedProvider(reply) as provider:
            chunks = stream_of(post(client, provider, stream=True))
        deltas = [chunk["choices"][0]["delta"].get("content") for chunk in chunks]
        return [delta for delta in deltas if delta]

    assert pieces(text("a b c")) == ["a ", "b ", "c"]
    assert pieces(text("abcd", chunks=2)) == ["ab", "cd"]
    assert pieces(text("abcd", chunks=["a", "bcd"])) == ["a", "bcd"]
    assert pieces(text("ab", chunks=9)) == ["a", "b"]


def test_tool_calls_in_both_forms(client: httpx2.Client) -> None:
    reply = tool_calls([("ls", {"p": 1}), Call("cat", "not json", id=""), Call("rm", id="mine")], content="look")
    with ScriptedProvider(reply) as provider:
        message = post(client, provider).json()["choices"][0]["message"]
        streamed = stream_of(post(client, provider, stream=True))
    assert message["content"] == "look"
    assert [call.get("id") for call in message["tool_calls"]] == ["call_1_0", None, "mine"]
    assert message["tool_calls"][1]["function"] == {"name": "cat", "arguments": "not json"}
    pieces = [
        call for chunk in streamed for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", [])
    ]
    arguments = dict.fromkeys(range(3), "")
    for piece in pieces:
        arguments[piece["index"]] += piece["function"].get("arguments", "")
    assert arguments == {0: '{"p":1}', 1: "not json", 2: "{}"}


def test_options_of_a_completion(client: httpx2.Client) -> None:
    reply = reasoning("hm", "yes", usage={"prompt_tokens": 1}, finish_reason="length", model="other", id="mine")
    with ScriptedProvider([reply, text("x", usage=None), text("x", headers={"x-a": "1"})]) as provider:
        body = post(client, provider).json()
        assert body["choices"][0]["message"]["reasoning"] == "hm"
        assert (body["usage"], body["model"], body["id"]) == ({"prompt_tokens": 1}, "other", "mine")
        assert body["choices"][0]["finish_reason"] == "length"
        assert "usage" not in post(client, provider).json()
        assert post(client, provider).headers["x-a"] == "1"


def test_usage_is_streamed_only_when_asked_for(client: httpx2.Client) -> None:
    with ScriptedProvider("x") as provider:
        assert "usage" not in stream_of(post(client, provider, stream=True))[-1]
        asked = stream_of(post(client, provider, stream=True, stream_options={"include_usage": True}))
        assert asked[-1]["usage"]["total_tokens"] == 15


def test_failures_and_raw_bytes(client: httpx2.Client) -> None:
    script = [
        failure(429, "slow", code="rate_limit_exceeded", error_type="t", headers={"retry-after": "1"}),
        raw(b"plain", content_type="text/plain", status=203),
        raw([b"a", b"b"]),
        raw(b"all", until_close=True),
    ]
    with ScriptedProvider(script) as provider:
        slow = post(client, provider)
        assert (slow.status_code, slow.headers["retry-after"]) == (429, "1")
        assert slow.json()["error"] == {"message": "slow", "type": "t", "param": None, "code": "rate_limit_exceeded"}
        plain = post(client, provider)
        assert (plain.status_code, plain.text, plain.headers["content-type"]) == (203, "plain", "text/plain")
        assert post(client, provider).text == "ab"
        assert post(client, provider).text == "all"


def test_faults_of_the_connection(client: httpx2.Client) -> None:
    with ScriptedProvider([dropped(), text("x" * 500, truncate_after=100)]) as provider:
        with pytest.raises(httpx2.RemoteProtocolError):
            post(client, provider)
        with pytest.raises(httpx2.RemoteProtocolError):
            post(client, provider)
    for reply in (hanging(), text("x" * 500, hang_after=100), text("x", delay=600)):
        with ScriptedProvider(reply) as provider, pytest.raises(httpx2.ReadTimeout):
            client.post(f"{provider.base_url}/chat/completions", json={}, timeout=0.1)


def test_delays_are_kept(client: httpx2.Client) -> None:
    with ScriptedProvider(text("a b c", delay=0.05, chunk_delay=0.02)) as provider:
        started = time.monotonic()
        post(client, provider, stream=True)
        assert time.monotonic() - started >= 0.05 + 6 * 0.02


# -- the server -----------------------------------------------------------------------------------------------------


def test_requests_are_recorded(client: httpx2.Client) -> None:
    with ScriptedProvider("x") as provider:
        before = time.monotonic()
        client.post(f"{provider.base_url}/chat/completions", json={"a": 1}, headers={"X-Mine": "y"})
        request = provider.wait_for_request()
        assert (request.number, request.method, request.path) == (1, "POST", "/v1/chat/completions")
        assert (request.body, request.headers["x-mine"]) == ({"a": 1}, "y")
        assert before <= request.arrived <= time.monotonic()
        assert (request.messages, request.last_user_text, request.step) == ([], "", 0)
        client.post(f"{provider.base_url}/chat/completions", content=b"{oops")
        assert provider.requests[1].body == {"unreadable": "{oops"}


def test_waiting_for_a_request(client: httpx2.Client) -> None:
    with ScriptedProvider("x") as provider:
        thread = threading.Thread(target=post, args=(client, provider))
        thread.start()
        assert provider.wait_for_request(1).number == 1
        thread.join()
        with pytest.raises(TimeoutError, match="1 requests arrived"):
            provider.wait_for_request(2, timeout=0.01)


def test_other_paths(client: httpx2.Client) -> None:
    with ScriptedProvider("x", model="mine") as provider:
        assert client.get(f"{provider.base_url}/models").json()["data"][0]["id"] == "mine"
        assert client.get(f"{provider.base_url}/nothing").status_code == 404
        assert client.post(f"{provider.base_url}/nothing", json={}).status_code == 404


def test_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    open_files = _open_files()
    with (
        ScriptedProvider(hanging()) as provider,
        socket.create_connection(_address(provider)) as idle,
        socket.create_connection(_address(provider)) as waiting,
    ):
        waiting.sendall(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
        provider.wait_for_request()
        provider.close()
        assert idle.recv(1) == waiting.recv(1) == b""
    assert set(threading.enumerate()) == before
    assert _open_files() == open_files
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(_address(provider))


def test_visitors_at_closing_time_are_sent_away() -> None:
    """Connections that arrive while the server stops must not be left open (an open one is a ResourceWarning)."""
    open_files = _open_files()
    for _ in range(50):
        with ScriptedProvider("x") as provider:
            visitors = [socket.create_connection(_address(provider)) for _ in range(3)]
        for visitor in visitors:
            visitor.close()
    assert _open_files() == open_files


def test_a_taken_port_is_an_error() -> None:
    with ScriptedProvider() as provider, pytest.raises(OSError, match="in use"):
        ScriptedProvider(port=_address(provider)[1]).__enter__()


@pytest.mark.slow
def test_a_thousand_connections_at_once() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip("this system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    request = b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}"
    sockets: list[socket.socket] = []
    try:
        with ScriptedProvider("x") as provider:
            sockets.extend(socket.create_connection(_address(provider), timeout=60) for _ in range(1000))
            for sock in sockets:
                sock.sendall(request)
            assert all(sock.recv(4096).startswith(b"HTTP/1.1 200") for sock in sockets)
            assert provider.connections == len(provider.requests) == 1000
    finally:
        for sock in sockets:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- as a process ---------------------------------------------------------------------------------------------------


def run_process(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-m", "hermes.testing.scripted", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_the_process_prints_its_url_and_answers(client: httpx2.Client) -> None:
    with run_process("--reply", "from afar") as process:
        url = first_line(process)
        assert content(client.post(f"{url}/chat/completions", json={})) == "from afar"
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


def test_the_process_takes_a_script(client: httpx2.Client, tmp_path: Path) -> None:
    script = [
        {"tool_calls": [{"name": "ls", "arguments": {"a": 1}}], "delay": 0.0},
        {"reasoning": "hm", "text": "done"},
        {"failure": {"status": 429, "message": "slow"}},
        "plain",
    ]
    file = tmp_path / "script.json"
    file.write_text(json.dumps(script))
    with run_process("--script", str(file)) as process:
        url = first_line(process) + "/chat/completions"
        assert client.post(url, json={}).json()["choices"][0]["finish_reason"] == "tool_calls"
        assert content(client.post(url, json={})) == "done"
        assert client.post(url, json={}).status_code == 429
        assert content(client.post(url, json={})) == "plain"
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0


def test_a_script_by_user_text_and_by_step(client: httpx2.Client, tmp_path: Path) -> None:
    by_text, stepwise = tmp_path / "by_text.json", tmp_path / "by_step.json"
    by_text.write_text(json.dumps({"a": "A", "b": ["B"]}))
    stepwise.write_text(json.dumps(["first", "second"]))
    for file, flags, answers in ((by_text, (), ["A", "B"]), (stepwise, ("--by-step",), ["first", "first"])):
        with run_process("--script", str(file), *flags) as process:
            url = first_line(process) + "/chat/completions"
            for question, answer in zip("ab", answers, strict=True):
                messages = [{"role": "user", "content": question}]
                assert content(client.post(url, json={"messages": messages})) == answer
            process.terminate()


def test_a_bad_script_says_what_is_wrong() -> None:
    from hermes.testing.scripted.replies import reply_from_json

    with pytest.raises(ValueError, match="unknown fields in a scripted reply: speed"):
        reply_from_json({"text": "x", "speed": 3})
    with pytest.raises(ValueError, match="found int"):
        reply_from_json(3)


def test_every_public_name_is_there() -> None:
    for name in hermes.testing.__all__:
        assert getattr(hermes.testing, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hermes.testing.nothing  # pyright: ignore[reportAttributeAccessIssue]


def _open_files() -> int:
    """How many files this process has open; 0 where the system does not tell."""
    listing = Path("/proc/self/fd")
    return sum(1 for _ in listing.iterdir()) if listing.exists() else 0


def _address(provider: ScriptedProvider) -> tuple[str, int]:
    host, _, port = provider.base_url.removeprefix("http://").removesuffix("/v1").partition(":")
    return host, int(port)


@pytest.mark.parametrize(
    ("content", "problem"),
    [(None, "No such file or directory"), ("[", "truncated"), ("[3]", "a scripted reply is a string or an object")],
)
def test_a_script_that_cannot_be_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, problem: str
) -> None:
    path = tmp_path / "script.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SystemExit):
        run_scripted(["--script", str(path)])
    assert f"--script {path}: " in (said := capsys.readouterr().err) and problem in said
