"""What callers may send."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from a2a.types import Message, Part
from google.protobuf import json_format, struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from hermes.base.http_server.outgoing import RedactingStream, redacted
from hermes.surfaces.a2a.server.content import UnusableMessage, content_of
from hermes.testing import ScriptedProvider
from support.a2a_rig import calling, said, send, served, state_name, status_text

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40


def data(document: Any) -> Part:
    value = struct_pb2.Value()
    json_format.ParseDict(document, value)
    return Part(data=value)


def content(*parts: Part, allow_private: bool = False) -> Any:
    return content_of(Message(parts=parts), [], max_file_bytes=1_000, allow_private=allow_private)


def test_text_data_and_files() -> None:
    assert content(Part(text="a"), Part(text="b")) == "a\n\nb"
    assert content(data({"n": 3, "half": 0.5, "list": [1, None, True]})) == '{"half":0.5,"list":[1,null,true],"n":3}'
    assert content(Part(raw=b"x,y\n1,2", filename="t.csv")) == "The file 't.csv' holds:\nx,y\n1,2"
    [words, image] = content(Part(text="what is it?"), Part(raw=PNG, media_type="image/png"))
    assert words == {"type": "text", "text": "what is it?"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Part(text="  "), "empty"),
        (Part(raw=b"x" * 1_001), "at most 1,000"),
        (Part(raw=b"\x00\x01binary"), "neither text nor"),
        (Part(raw=b"\xff\xfe\xfd"), "neither text nor"),
        (Part(url="file:///etc/passwd"), "cannot be fetched"),
        (Part(url="http://127.0.0.1:1/x"), "cannot be fetched"),
        (Part(url="http://169.254.169.254/latest/meta-data"), "cannot be fetched"),
    ],
)
def test_what_cannot_be_used(part: Part, words: str) -> None:
    with pytest.raises(UnusableMessage, match=words):
        content(part)


def test_a_file_is_fetched_where_that_is_allowed() -> None:
    with file_server(b"hello file") as url:
        assert content(Part(url=url, filename="a.txt"), allow_private=True) == "The file 'a.txt' holds:\nhello file"
        with pytest.raises(UnusableMessage, match="cannot be fetched"):
            content(Part(url=url))
    with file_server(b"x" * 2_000) as url, pytest.raises(UnusableMessage, match="cannot be fetched"):
        content(Part(url=url), allow_private=True)


@contextmanager
def file_server(body: bytes) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/a.txt"
        server.shutdown()
        thread.join()


def test_a_message_that_cannot_be_used_is_rejected_and_the_model_not_asked(home: Path, workdir: Path) -> None:
    async def call() -> None:
        async with calling(agent, streaming=False) as client:
            task = await send(client, said("", Part(url="http://127.0.0.1:1/secret", media_type="text/plain")))
            assert state_name(task.status.state) == "rejected"
            assert status_text(task) == "A file of the message cannot be fetched from its address."
            earlier = await send(client, said("hello"))
            await send(client, said("and that?", reference_task_ids=[earlier.id, "unknown"]))

    with ScriptedProvider("the answer") as provider, served(home, workdir, provider) as agent:
        asyncio.run(call())
        assert len(provider.requests) == 2
        asked = provider.requests[1].last_user_text
        assert asked.startswith("and that?") and asked.endswith("the answer")


# -- reasoning between tags -----------------------------------------------------------------------------------------

PIECES = st.lists(st.sampled_from(["<think>", "</think>", "<thi", "nk>", "<", "a", "bc ", "\n"]), max_size=12)


@given(PIECES, st.integers(1, 5))
def test_redaction_does_not_depend_on_chunk_boundaries(pieces: list[str], size: int) -> None:
    whole = "".join(pieces)
    filter_ = RedactingStream()
    streamed = "".join(filter_.feed(whole[at : at + size]) for at in range(0, len(whole), size)) + filter_.finish()
    assert streamed == redacted(whole)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a<think>b</think>c", "ac"),
        ("<think>a</think><think>b</think>c", "c"),
        ("a <think> tag", "a <think> tag"),
        ("</think>a", "</think>a"),
        ("a<thin", "a<thin"),
    ],
)
def test_redaction_of_a_text(text: str, left: str) -> None:
    assert redacted(text) == left
