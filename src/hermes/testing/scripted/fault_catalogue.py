"""The faults that servers, gateways and networks really have, by name."""

from __future__ import annotations

import functools
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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


#: Name; what follows the last step; the class of failure, none when it is a good answer all the same; whether the text
#: that arrived is kept; what happens; words of the message.
_TABLE = """
silence          | hang  | timeout      |      | The request is taken and never answered. | no answer
slow_headers     | hang  | timeout      |      | Half a head, then silence. | stalled
dripping_headers | hang  | timeout      |      | A head that comes a byte at a time and has no end. | in all
stall            | hang  | timeout      | kept | An answer that stops in the middle. | stalled
only_comments    | hang  | timeout      |      | A stream that is kept alive and says nothing. | in all
half_chunk       | close | truncated    | kept | A chunk that is cut. | broke off
reset            | reset | truncated    | kept | The connection is reset. | broke off
chunked_garbage  | close | truncated    | kept | What should be the size of a chunk is not. | broke off
length_too_long  | close | truncated    |      | A body shorter than its content-length. | cut off
length_too_short | keep  | truncated    |      | A body longer than its content-length. | cut off
second_answer    | keep  |              |      | A good answer, followed by a second one that was not requested. |
early_hints      | keep  |              |      | Informational answers before the real one. |
no_http          | close | malformed    |      | Something that is not HTTP. | HTTP
endless_head     | close | malformed    |      | A head of a megabyte. | does not answer in HTTP
no_tls           | close | connection   |      | A plain port under an https address. | use http://
bad_utf8         | keep  | malformed    | kept | Bytes that are not UTF-8. | a bad event
same_tool_ids    | keep  |              |      | Two tool calls with one id. |
broken_arguments | keep  |              |      | Tool arguments that are not JSON. |
long_line        | close | malformed    |      | One line of ten megabytes. | more than 8 MB
deep_nesting     | keep  | malformed    |      | JSON nested a hundred thousand deep. | cannot be read
gzip_bomb        | close | malformed    |      | A small body that unpacks to 80 MB. | more than 64 MB
cut_gzip         | close | truncated    |      | A compressed body that is cut. | cut off
broken_gzip | close | malformed    | kept | A compressed stream that turns into something else. | broken compression
web_page         | keep  | malformed    |      | A sign-in page. | Sign in
empty_body       | keep  | truncated    |      | Success and no body. | before the answer began
error_as_success | close | overloaded   |      | Status 200 with an error. | busy
error_midway     | close | overloaded   | kept | An answer that turns into an error. | busy
echoed_key       | close | auth         |      | A refusal that shows the key. | 401
redirect         | keep  | bad_request  |      | A redirect to another host. | redirects to http://other.invalid
cut_error        | close | server_error |      | An error whose body breaks off. | upstream fai
"""


def _steps() -> dict[str, Sequence[Step]]:
    """What is sent of each fault."""
    packed = "content-encoding: gzip\r\n"
    error = b'{"error": {"message": "busy, key %b", "code": 503}}' % ECHO
    refused = b'{"error": {"message": "Incorrect API key provided: %b", "code": "invalid_api_key"}}' % ECHO
    elsewhere = "location: http://other.invalid/v1/chat/completions\r\n"
    long_head = b"HTTP/1.1 200 OK\r\nx-long: "
    unpacked = _UNTIL_CLOSE.replace(b"connection", b"content-encoding: gzip\r\nconnection")
    return {
        "silence": (),
        "slow_headers": (_STREAM_HEAD[:30],),
        "dripping_headers": _drip(long_head + b"x" * 2000, 0.05),
        "stall": (_BEGUN,),
        "only_comments": (_STREAM_HEAD, *([_chunk(b": waiting\n\n"), 0.05] * 200)),
        "half_chunk": (_BEGUN + b"64\r\ndata: {",),
        "reset": (_BEGUN, 0.05),
        "chunked_garbage": (_BEGUN + b"size? " + ECHO + b"\r\n",),
        "length_too_long": (_document(_ANSWER[:-20], length=len(_ANSWER) + 99),),
        "length_too_short": (_document(_ANSWER, length=len(_ANSWER) - 20),),
        "second_answer": (_document(_ANSWER) + _document(b'{"choices": []}'),),
        "early_hints": (_HINTS + _document(_ANSWER),),
        "no_http": (b"220 mail " + ECHO + b"\r\n",),
        "endless_head": (long_head + b"x" * _MEGABYTE,),
        "no_tls": (b"HTTP/1.1 400 Bad Request\r\n\r\n",),
        "bad_utf8": (_BEGUN + _chunk(_EVENT % b"\xff\xfe") + _LAST_CHUNK,),
        "same_tool_ids": (recorded(_TOOLS_TWICE),),
        "broken_arguments": (recorded(_BROKEN_ARGUMENTS),),
        "long_line": (_UNTIL_CLOSE + b"data: " + b"x" * (10 * _MEGABYTE),),
        "deep_nesting": (_document(b'{"choices":' + b"[" * 100_000),),
        "gzip_bomb": (_document(_bomb(), headers=packed),),
        "cut_gzip": (_document(gzip.compress(_ANSWER)[:-30], headers=packed),),
        "broken_gzip": (unpacked, _packed(_HALF), 0.05, b"\xff" * 99),
        "web_page": (_document(b"<title>Sign in</title>"),),
        "empty_body": (_document(b""),),
        "error_as_success": (_document(error),),
        "error_midway": (_UNTIL_CLOSE + b"".join(_HALF) + b"data: " + error + b"\n\n",),
        "echoed_key": (_document(refused, "401 No"),),
        "redirect": (_document(b"", "307 Moved", headers=elsewhere),),
        "cut_error": (_document(b"upstream fai", "502 Bad", length=500),),
    }


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
    steps, faults = _steps(), dict[str, Fault]()
    for line in _TABLE.strip().splitlines():
        name, ending, reason, kept, what, says = (cell.strip() for cell in line.split("|"))
        keeps = "Half of " if kept else ""
        how: Any = (ending, reason or None, says, keeps)
        faults[name] = Fault(name, what, steps[name], *how, pretends_tls=name == "no_tls")
    return faults


#: Every fault by name.
FAULTS: Mapping[str, Fault] = _Catalogue()
