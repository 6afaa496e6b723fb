"""The faults that servers, gateways and networks really have, by name."""

from __future__ import annotations

import functools
import gzip
import zlib
from collections.abc import Iterator, Mapping

from hermes.base.errors import did_you_mean
from hermes.testing.scripted.faults import ECHO, Fault, Step
from hermes.testing.scripted.replies import ScriptedCall, ScriptedReply, completion, events, text, tool_calls

_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_LAST_CHUNK = b"0\r\n\r\n"
_MEGABYTE = 1024 * 1024


def recorded(reply: ScriptedReply) -> bytes:
    """A whole streamed response as it goes over the network, head and framing included."""
    pieces = events(reply, 1, "faulty", include_usage=True)
    return _STREAM_HEAD + b"".join(map(_chunk, pieces)) + _LAST_CHUNK


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _document(body: bytes, status: str = "200 OK", *, length: int | None = None, headers: str = "") -> bytes:
    framing = f"content-length: {len(body) if length is None else length}"
    if ECHO in body:
        framing = "connection: close"  # the length of the key is not known yet
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}{framing}\r\n\r\n"
    return head.encode() + body


#: The beginning of an answer, and nothing that ends it.
_HALF = events(text("Half of it"), 1, "faulty", include_usage=True)[:3]
_BEGUN = _STREAM_HEAD + b"".join(map(_chunk, _HALF))
_ANSWER = completion(text("All of it."), 1, "faulty")
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'


def _bomb() -> bytes:
    """A few hundred kilobytes that become 80 megabytes of blanks."""
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    blank = b" " * _MEGABYTE
    return b"".join(packer.compress(blank) for _ in range(80)) + packer.flush()


def _packed(pieces: list[bytes]) -> bytes:
    """Compressed so that all of it can be unpacked at once, although more may follow."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    return packer.compress(b"".join(pieces)) + packer.flush(zlib.Z_SYNC_FLUSH)


def _drip(data: bytes, seconds: float) -> list[Step]:
    return [step for at in range(len(data)) for step in (data[at : at + 1], seconds)]


_TOOLS_TWICE = tool_calls(
    [ScriptedCall("read_file", {"path": "a"}, "same"), ScriptedCall("read_file", {"path": "b"}, "same")]
)
_BROKEN_ARGUMENTS = tool_calls([ScriptedCall("read_file", '{"path": ', "call_1")])
_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 20


def _make() -> Iterator[Fault]:
    yield from _timing()
    yield from _framing()
    yield from _content()
    yield from _refusals()


def _timing() -> Iterator[Fault]:
    yield Fault("silence", "The request is taken and never answered.", (), "hang", "timeout", "no answer")
    yield Fault("slow_headers", "Half a head, then silence.", (_STREAM_HEAD[:30],), "hang", "timeout", "stalled")
    yield Fault(
        "dripping_headers",
        "A head that comes a byte at a time and has no end.",
        _drip(b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 2000, 0.05),
        "hang",
        "timeout",
        "in all",
    )
    yield Fault("stall", "An answer that stops in the middle.", (_BEGUN,), "hang", "timeout", "stalled", "Half of ")
    yield Fault(
        "only_comments",
        "A stream that is kept alive and says nothing.",
        (_STREAM_HEAD, *([_chunk(b": waiting\n\n"), 0.05] * 200)),
        "hang",
        "timeout",
        "in all",
    )


def _framing() -> Iterator[Fault]:
    half = _BEGUN + b"64\r\ndata: {"
    yield Fault("half_chunk", "A chunk that is cut.", (half,), "close", "truncated", "broke off", "Half of ")
    yield Fault("reset", "The connection is reset.", (_BEGUN, 0.05), "reset", "truncated", "broke off", "Half of ")
    yield Fault(
        "chunked_garbage",
        "What should be the size of a chunk is not.",
        (_BEGUN + b"size? " + ECHO + b"\r\n",),
        "close",
        "truncated",
        "broke off",
        "Half of ",
    )
    yield Fault(
        "length_too_long",
        "A body shorter than its content-length.",
        (_document(_ANSWER[:-20], length=len(_ANSWER) + 99),),
        "close",
        "truncated",
        "cut off",
    )
    yield Fault(
        "length_too_short",
        "A body longer than its content-length.",
        (_document(_ANSWER, length=len(_ANSWER) - 20),),
        "keep",
        "truncated",
        "cut off",
    )
    yield Fault(
        "second_answer",
        "A good answer, followed by a second one that was not requested.",
        (_document(_ANSWER) + _document(b'{"choices": []}'),),
        "keep",
    )
    yield Fault("early_hints", "Informational answers before the real one.", (_HINTS + _document(_ANSWER),), "keep")
    yield Fault(
        "no_http", "Something that is not HTTP.", (b"220 mail " + ECHO + b"\r\n",), "close", "malformed", "HTTP"
    )
    yield Fault(
        "endless_head",
        "A head of a megabyte.",
        (b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * _MEGABYTE,),
        "close",
        "malformed",
        "does not answer in HTTP",
    )
    yield Fault(
        "no_tls",
        "A plain port under an https address.",
        (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        "close",
        "connection",
        "use http://",
        pretends_tls=True,
    )


def _content() -> Iterator[Fault]:
    bad_text = _BEGUN + _chunk(_EVENT % b"\xff\xfe") + _LAST_CHUNK
    yield Fault("bad_utf8", "Bytes that are not UTF-8.", (bad_text,), "keep", "malformed", "a bad event", "Half of ")
    yield Fault("same_tool_ids", "Two tool calls with one id.", (recorded(_TOOLS_TWICE),), "keep")
    yield Fault("broken_arguments", "Tool arguments that are not JSON.", (recorded(_BROKEN_ARGUMENTS),), "keep")
    yield Fault(
        "long_line",
        "One line of ten megabytes.",
        (_UNTIL_CLOSE + b"data: " + b"x" * (10 * _MEGABYTE),),
        "close",
        "malformed",
        "more than 8 MB",
    )
    yield Fault(
        "deep_nesting",
        "JSON nested a hundred thousand deep.",
        (_document(b'{"choices":' + b"[" * 100_000),),
        "keep",
        "malformed",
        "cannot be read",
    )
    yield Fault(
        "gzip_bomb",
        "A small body that unpacks to 80 MB.",
        (_document(_bomb(), headers="content-encoding: gzip\r\n"),),
        "close",
        "malformed",
        "more than 64 MB",
    )
    yield Fault(
        "cut_gzip",
        "A compressed body that is cut.",
        (_document(gzip.compress(_ANSWER)[:-30], headers="content-encoding: gzip\r\n"),),
        "close",
        "truncated",
        "cut off",
    )
    yield Fault(
        "broken_gzip",
        "A compressed stream that turns into something else.",
        (
            _UNTIL_CLOSE.replace(b"connection", b"content-encoding: gzip\r\nconnection"),
            _packed(_HALF),
            0.05,
            b"\xff" * 99,
        ),
        "close",
        "malformed",
        "broken compression",
        "Half of ",
    )
    yield Fault("web_page", "A sign-in page.", (_document(b"<title>Sign in</title>"),), "keep", "malformed", "Sign in")
    yield Fault("empty_body", "Success and no body.", (_document(b""),), "keep", "truncated", "before the answer began")


def _refusals() -> Iterator[Fault]:
    error = b'{"error": {"message": "busy, key %b", "code": 503}}' % ECHO
    yield Fault("error_as_success", "Status 200 with an error.", (_document(error),), "close", "overloaded", "busy")
    yield Fault(
        "error_midway",
        "An answer that turns into an error.",
        (_UNTIL_CLOSE + b"".join(_HALF) + b"data: " + error + b"\n\n",),
        "close",
        "overloaded",
        "busy",
        "Half of ",
    )
    refused = b'{"error": {"message": "Incorrect API key provided: %b", "code": "invalid_api_key"}}' % ECHO
    yield Fault("echoed_key", "A refusal that shows the key.", (_document(refused, "401 No"),), "close", "auth", "401")
    yield Fault(
        "redirect",
        "A redirect to another host.",
        (_document(b"", "307 Moved", headers="location: http://other.invalid/v1/chat/completions\r\n"),),
        "keep",
        "bad_request",
        "redirects to http://other.invalid",
    )
    yield Fault(
        "cut_error",
        "An error whose body breaks off.",
        (_document(b"upstream fai", "502 Bad", length=500),),
        "close",
        "server_error",
        "upstream fai",
    )


class _Catalogue(Mapping[str, Fault]):
    """Made on first use: some of the faults are megabytes."""

    def __getitem__(self, name: str) -> Fault:
        try:
            return _all()[name]
        except KeyError:
            raise KeyError(f"there is no fault {name!r}{did_you_mean(name, _all())}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(_all())

    def __len__(self) -> int:
        return len(_all())


@functools.cache
def _all() -> dict[str, Fault]:
    return {fault.name: fault for fault in _make()}


#: Every fault by name.
FAULTS: Mapping[str, Fault] = _Catalogue()
