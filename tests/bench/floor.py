"""The floor: the same conversation with an HTTP client and no runtime at all.

No journal, no hooks, no limits, no retries, no checks: the least that a program needs to stream an answer, run the
tool calls in it and ask again. It is meant to be hard to beat: no certificates are loaded for a plain http address,
and it takes the JSON engine that suits the conversation best (a fast one costs more to import than one answer takes).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

_READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a text file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


class Json:
    """Either the standard library or the faster engine the runtime uses."""

    def __init__(self, *, fast: bool) -> None:
        self.loads: Callable[[str], Any] = json.loads
        self.dumps: Callable[[Any], bytes] = lambda value: json.dumps(value, separators=(",", ":")).encode()
        if fast:
            import msgspec

            self.loads, self.dumps = msgspec.json.decode, msgspec.json.encode


def converse(client: httpx2.Client, engine: Json, url: str, query: str) -> str:
    """Ask, run tools and ask again until there is an answer in words."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": query},
    ]
    while True:
        content, calls = stream(client, engine, url, messages)
        if not calls:
            return content
        messages.append({"role": "assistant", "content": content or None, "tool_calls": calls})
        for call in calls:
            content = run(**engine.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


def run(path: str = "", command: str = "") -> str:
    """Read the file, or run the command in a shell."""
    if command:
        import subprocess

        return subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False).stdout
    with Path(path).open(encoding="utf-8") as file:
        return file.read()


def stream(
    client: httpx2.Client, engine: Json, url: str, messages: list[dict[str, Any]]
) -> tuple[str, list[dict[str, Any]]]:
    """One completion put together from its events: the text and the tool calls."""
    body = {
        "model": "bench",
        "messages": messages,
        "tools": [_READ_FILE],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    content = ""
    calls: list[dict[str, Any]] = []
    headers = {"authorization": "Bearer bench", "content-type": "application/json"}
    with client.stream("POST", url, content=engine.dumps(body), headers=headers) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            chunk = engine.loads(line[6:])
            if not chunk["choices"]:
                continue
            delta = chunk["choices"][0]["delta"]
            content += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                if "id" in piece:
                    calls.append({name: piece[name] for name in ("id", "type", "function")})
                else:
                    calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    return content, calls


def main() -> None:
    """``floor.py URL QUERY json|msgspec`` prints the answer."""
    address, query, engine = sys.argv[1:]
    with httpx2.Client(verify=False) as client:
        answer = converse(client, Json(fast=engine == "msgspec"), f"{address}/chat/completions", query)
    sys.stdout.write(answer + "\n")


if __name__ == "__main__":
    main()
