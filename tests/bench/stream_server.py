"""A server in a process of its own that answers every request with one stream of 1,000 chunks."""

from __future__ import annotations

import re
import socket
import sys
import threading

import msgspec

CHUNKS = 1_000

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def chunks() -> list[bytes]:
    """The response, each piece to be sent by itself: a head, 1,000 chunks with a word each, and the end."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    words = [_event({"content": f"word{number} "}, None) for number in range(CHUNKS)]
    end = _framed(_event({}, "stop")) + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return [head, *map(_framed, words), end]


def _event(delta: dict[str, str], finish_reason: str | None) -> bytes:
    envelope = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return b"data: " + msgspec.json.encode({**envelope, "choices": [choice]}) + b"\n\n"


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _serve(client: socket.socket, pieces: list[bytes]) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with client:
        request = b""
        while data := client.recv(65536):
            request += data
            head = request.find(b"\r\n\r\n")
            length = _LENGTH.search(request, 0, head) if head > 0 else None
            if head > 0 and len(request) >= head + 4 + (int(length[1]) if length else 0):
                request = b""
                for piece in pieces:
                    client.sendall(piece)


def main() -> None:
    """Serve until stdin ends; the address is the first line on stdout."""
    pieces = chunks()

    def accept() -> None:
        while True:
            client, _ = listener.accept()
            threading.Thread(target=_serve, args=(client, pieces), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        threading.Thread(target=accept, daemon=True).start()
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
