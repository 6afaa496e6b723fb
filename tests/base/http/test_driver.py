"""Requests and answers over real sockets, and what servers can do wrong."""

from __future__ import annotations

import gzip
import socket
import threading
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from hermes.base.errors import FailureReason, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.reply import Completion, IncompleteReply, normalise
from hermes.models.wires.chat.wire import ChatCompletions
from hermes.models.wires.wire import Delta, ModelRequest, ReasoningDelta, TextDelta
from hermes.testing import (
    RecordedRequest,
    ScriptedProvider,
    ScriptedReply,
    dropped,
    failure,
    raw,
    reasoning,
    text,
    tool_call,
)
from hermes.testing.scripted.replies import completion, events
from support.drivers import AnyDriver

Ask = Callable[..., Completion]

KEY = "sk-test-0123456789abcdef"
DOCUMENT = completion(text("hello"), 1, "m")
STREAM = b"".join(events(text("one two three"), 1, "m", include_usage=True))


def refused(ask: Ask, reply: ScriptedReply, **options: Any) -> ProviderError:
    """The error a scripted answer ends in; the key is in none of them."""
    with ScriptedProvider(reply) as provider, pytest.raises(ProviderError) as caught:
        ask(provider.base_url, **options)
    assert KEY not in str(caught.value)
    return caught.value


# -- what works -----------------------------------------------------------------------------------------------------


def test_a_streamed_answer(ask: Ask) -> None:
    deltas: list[Delta] = []
    with ScriptedProvider(reasoning("hm", "one two")) as provider:
        response = ask(provider.base_url, on_delta=deltas.append)
    assert deltas == [ReasoningDelta("hm"), TextDelta("one "), TextDelta("two")]
    assert response["choices"][0]["message"]["content"] == "one two"
    assert response["usage"]["total_tokens"] == 15
    request = provider.requests[0]
    assert request.body["stream"] is True
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["host"] == provider.base_url.removeprefix("http://").removesuffix("/v1")


def test_an_answer_in_one_document(ask: Ask) -> None:
    with ScriptedProvider(tool_call("ls", {"path": "."})) as provider:
        response = ask(provider.base_url, stream=False)
    assert response["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"path":"."}'
    assert "stream" not in provider.requests[0].body


def test_a_document_for_a_stream_is_shown_at_once(ask: Ask) -> None:
    deltas: list[Delta] = []
    reply = raw(completion(reasoning("hm", "hello"), 1, "m"), content_type="application/json")
    with ScriptedProvider(reply) as provider:
        ask(provider.base_url, on_delta=deltas.append)
    assert deltas == [ReasoningDelta("hm"), TextDelta("hello")]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "text/html", ""])
def test_a_wrong_content_type_is_no_obstacle(ask: Ask, content_type: str) -> None:
    for body in (STREAM, DOCUMENT):
        with ScriptedProvider(raw(body, content_type=content_type or "x")) as provider:
            assert normalise(ask(provider.base_url)).finish_reason == "stop"


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_answers(ask: Ask, encoding: str) -> None:
    compress = gzip.compress if encoding == "gzip" else zlib.compress
    packed = compress(STREAM)
    pieces = [packed[at : at + 7] for at in range(0, len(packed), 7)]
    with ScriptedProvider(raw(pieces, headers={"content-encoding": encoding})) as provider:
        assert normalise(ask(provider.base_url)).content == "one two three"


def test_deflate_without_a_header(ask: Ask) -> None:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = packer.compress(STREAM) + packer.flush()
    pieces = [packed[at : at + 7] for at in range(0, len(packed), 7)]
    with ScriptedProvider(raw(pieces, headers={"content-encoding": "deflate"})) as provider:
        assert normalise(ask(provider.base_url)).content == "one two three"


def test_a_kept_connection_that_breaks_is_replaced_without_a_word(ask: Ask) -> None:
    with ScriptedProvider([text("a"), dropped(), text("b")]) as provider:
        ask(provider.base_url)
        assert normalise(ask(provider.base_url)).content == "b"
        assert (len(provider.requests), provider.connections) == (3, 2)


def test_a_new_connection_that_breaks_is_a_failure(ask: Ask) -> None:
    with ScriptedProvider([text("a"), dropped(), dropped(), text("b")]) as provider:
        ask(provider.base_url)
        with pytest.raises(ProviderError, match="closed the connection without an answer") as caught:
            ask(provider.base_url)
        assert (caught.value.retryable, len(provider.requests)) == (True, 3)


def test_a_stream_that_does_not_end_is_given_up(ask: Ask) -> None:
    endless = raw([events(text("word " * 50), 1, "m", include_usage=False)[1]] * 400)
    with ScriptedProvider(endless) as provider, pytest.raises(IncompleteReply, match="max_response_bytes") as caught:
        ask(provider.base_url, max_response_bytes=20_000)
    assert (caught.value.reason, caught.value.retryable) == ("malformed", False)
    assert 0 < len(caught.value.partial.content) < 20_000


def test_an_answer_that_ends_with_the_connection(ask: Ask) -> None:
    for stream in (True, False):
        with ScriptedProvider(raw(STREAM if stream else DOCUMENT, until_close=True)) as provider:
            assert ask(provider.base_url, stream=stream)["choices"][0]["finish_reason"] == "stop"


def test_a_body_that_stays_open_after_its_end_is_not_waited_for(ask: Ask) -> None:
    with ScriptedProvider(raw([STREAM, b": more"], hang_after=len(STREAM))) as provider:
        assert normalise(ask(provider.base_url)).content == "one two three"


def test_a_body_of_one_megabyte_goes_out_whole(ask: Ask) -> None:
    content = "x" * 1_000_000
    with ScriptedProvider("ok") as provider:
        ask(provider.base_url, messages=[{"role": "user", "content": content}])
    assert provider.requests[0].last_user_text == content


# -- connections ----------------------------------------------------------------------------------------------------


def test_a_connection_is_used_again_by_any_thread(ask: Ask) -> None:
    with ScriptedProvider([text("a"), failure(500), text("b"), text("c")]) as provider:
        ask(provider.base_url)
        with pytest.raises(ProviderError):
            ask(provider.base_url)
        thread = threading.Thread(target=ask, args=(provider.base_url,))
        thread.start()
        thread.join()
        ask(provider.base_url, stream=False)
        assert len(provider.requests) == 4
        assert provider.connections == 1


def test_a_connection_the_server_closed_is_not_used_again(ask: Ask) -> None:
    script = [raw(DOCUMENT, until_close=True), text("b"), text("c", truncate_after=400), text("d")]
    with ScriptedProvider(script) as provider:
        ask(provider.base_url)
        ask(provider.base_url)
        with pytest.raises(ProviderError):
            ask(provider.base_url)
        ask(provider.base_url)
        assert len(provider.requests) == 4
        assert provider.connections == 3


def test_a_closed_driver_keeps_nothing_open(driver: AnyDriver, ask: Ask) -> None:
    with ScriptedProvider("ok") as provider:
        ask(provider.base_url)
        driver.close()
        ask(provider.base_url)
        ask(provider.base_url)
        assert provider.connections == 3


@pytest.mark.parametrize("driver", [Driver], indirect=True)  # a callback on an event loop cannot wait for another
def test_a_request_inside_a_delta_callback(ask: Ask) -> None:
    answers: list[str] = []
    with ScriptedProvider([text("outer"), text("inner")]) as provider:

        def nested(_delta: Delta) -> None:
            answers.append(normalise(ask(provider.base_url)).content)

        answers.append(normalise(ask(provider.base_url, on_delta=nested)).content)
    assert answers == ["inner", "outer"]


def test_a_failing_callback_is_the_callers_own_error(ask: Ask) -> None:
    with ScriptedProvider("one two three") as provider:

        def fail(_delta: Delta) -> None:
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            ask(provider.base_url, on_delta=fail)
        assert normalise(ask(provider.base_url)).content == "one two three"


def test_many_threads_at_once(driver: AnyDriver) -> None:
    wire = ChatCompletions()
    contents: list[str] = []

    def echo(request: RecordedRequest) -> ScriptedReply:
        return text(request.last_user_text, chunk_delay=0.001)

    with ScriptedProvider(echo) as provider:
        endpoint = Endpoint(provider.base_url, "m")

        def chat(number: int) -> None:
            for step in range(3):
                message = {"role": "user", "content": f"{number} {step} a b c"}
                kwargs = wire.kwargs(endpoint, ModelRequest([message]))
                contents.append(normalise(driver.send(endpoint, wire, kwargs, interrupt=Interrupt())).content)

        threads = [threading.Thread(target=chat, args=(number,)) for number in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # One for each thread; a few more where a busy machine ends an answer later than anybody waits for its end.
        assert provider.connections < 96
    assert sorted(contents) == sorted(f"{number} {step} a b c" for number in range(64) for step in range(3))


# -- what goes wrong ------------------------------------------------------------------------------------------------


FAULTS: list[tuple[ScriptedReply, FailureReason, str]] = [
    (failure(401, f"bad key {KEY}", code="invalid_api_key"), "auth", "the key was refused"),
    (failure(429, "slow", headers={"retry-after": "7"}), "rate_limit", "slow"),
    (failure(307, headers={"location": "http://evil.example/v1"}), "bad_request", "redirects to http://evil.example"),
    (raw(b"<html><title>Sign in</title>", content_type="text/html"), "malformed", "HTML page titled 'Sign in'"),
    (raw(b"<html><title>Gone</title>", status=502), "server_error", "HTML page titled 'Gone'"),
    (raw(b"{oops}"), "malformed", "bad JSON"),
    (raw(b'{"choices": []}'), "malformed", "empty list of choices"),
    (raw(b'{"error": {"message": "busy", "code": 503}}'), "overloaded", "busy"),
    (raw(b"\xff\xfe\x00"), "malformed", "no events"),
    (raw(b"", until_close=True), "truncated", "before the answer began"),
    (raw(DOCUMENT, headers={"content-encoding": "br"}), "malformed", "content encoding 'br'"),
    (raw(DOCUMENT, headers={"content-encoding": "gzip"}), "malformed", "broken compression"),
    (raw(gzip.compress(DOCUMENT), headers={"content-encoding": "gzip"}, truncate_after=20), "truncated", "began"),
    (raw(DOCUMENT, truncate_after=50), "truncated", "cut off"),
    (raw(b"", status=502, headers={"content-encoding": "br"}), "server_error", "HTTP 502"),
    (raw(b"half an error", status=502, truncate_after=4), "server_error", "half"),
    (raw(b"data: " + b"x" * 10 * 1024 * 1024), "malformed", "more than 8 MB"),
    (dropped(), "connection", "closed the connection without an answer"),
]


@pytest.mark.parametrize(("reply", "reason", "says"), FAULTS)
def test_faults_end_in_the_right_class(ask: Ask, reply: ScriptedReply, reason: FailureReason, says: str) -> None:
    error = refused(ask, reply)
    assert (error.reason, says in str(error)) == (reason, True), str(error)
    assert "\n" not in str(error)


def test_the_wait_a_server_asks_for_is_passed_on(ask: Ask) -> None:
    assert refused(ask, failure(429, headers={"retry-after": "7"})).retry_after == 7


def test_a_server_that_is_not_there(ask: Ask) -> None:
    with ScriptedProvider() as provider:
        gone = provider.base_url
    with pytest.raises(ProviderError, match=r"cannot connect to http://127\.0\.0\.1") as caught:
        ask(gone)
    assert caught.value.reason == "connection"
    assert "check the base_url of demo" in str(caught.value)


def test_a_host_that_does_not_exist(ask: Ask) -> None:
    with pytest.raises(ProviderError, match=r"cannot connect to http://no-such-host\.invalid") as caught:
        ask("http://no-such-host.invalid/v1")
    assert caught.value.reason == "connection"
    assert "the name no-such-host.invalid does not resolve; check the base_url of demo" in str(caught.value)


@pytest.mark.parametrize(("code", "passes"), [(socket.EAI_NONAME, False), (socket.EAI_AGAIN, True)])
def test_a_host_that_does_not_exist_is_not_asked_for_again(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, code: int, passes: bool
) -> None:
    def look_up(*_: Any, **__: Any) -> None:
        raise socket.gaierror(code, "scripted")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(ProviderError, match="cannot connect") as caught:
        ask("http://no-such-host.invalid/v1")
    assert caught.value.retryable is passes


def test_a_header_that_cannot_be_sent_is_not_shown(ask: Ask) -> None:
    for value in ("secret\nvalue", "secret \x00 value", "sécret"):
        with ScriptedProvider("ok") as provider, pytest.raises(ProviderError, match="header") as caught:
            ask(provider.base_url, extra={"extra_headers": {"x-key": value}})
        assert caught.value.reason == "bad_request"
        assert "cret" not in str(caught.value)


# -- time -----------------------------------------------------------------------------------------------------------


SLOW: list[tuple[ScriptedReply, Timeouts, str]] = [
    (text("x", hang=True), Timeouts(first_byte=0.1), "no answer within 0.1 s (timeout: first byte)"),
    (text("x", delay=5), Timeouts(first_byte=0.1), "no answer within 0.1 s (timeout: first byte)"),
    (text("one two", hang_after=300), Timeouts(between_chunks=0.1), "stalled for 0.1 s (timeout: next chunk)"),
    (text("one two " * 20, chunk_delay=0.02), Timeouts(total=0.15), "longer than 0.15 s in all (timeout: total)"),
    (text("x", hang=True), Timeouts(first_byte=9, total=0.1), "longer than 0.1 s in all (timeout: total)"),
]


@pytest.mark.parametrize(("reply", "timeouts", "says"), SLOW)
def test_each_phase_has_its_limit(ask: Ask, reply: ScriptedReply, timeouts: Timeouts, says: str) -> None:
    error = refused(ask, reply, timeouts=timeouts)
    assert error.reason == "timeout"
    assert says in str(error)
    assert error.retryable


def test_a_limit_in_the_middle_of_an_answer_says_when_it_ends(ask: Ask) -> None:
    begun = STREAM[: STREAM.index(b"\n\n") + 2]
    limit = b'data: {"error": {"code": "rate_limit_exceeded", "resets_in_seconds": 40}}\n\n'
    error = refused(ask, raw(begun + limit))
    assert isinstance(error, IncompleteReply)
    assert (error.reason, error.retry_after) == ("rate_limit", 40)


def test_what_arrived_before_a_timeout_is_kept(ask: Ask) -> None:
    error = refused(ask, text("one two", chunks=1, hang_after=400), timeouts=Timeouts(between_chunks=0.1))
    assert isinstance(error, IncompleteReply)
    assert error.partial.content == "one two"


def test_a_timeout_in_the_request_limits_the_whole_call(ask: Ask) -> None:
    assert "timeout: total" in str(refused(ask, text("x", hang=True), extra={"timeout": 0.1}))


def test_a_steady_stream_may_take_longer_than_the_limit_between_chunks(ask: Ask) -> None:
    with ScriptedProvider(text("a b c d e f g h i j", chunk_delay=0.06)) as provider:
        assert normalise(ask(provider.base_url, timeouts=Timeouts(between_chunks=0.5))).content == "a b c d e f g h i j"
