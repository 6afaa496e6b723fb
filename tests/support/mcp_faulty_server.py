"""An MCP server over stdio in the standard library alone, which starts fast and does wrong what it is told to.

Its arguments are faults: ``banner``, ``garbage``, ``silent``, ``dies``, ``flood``, ``odd-names``, ``many=N``,
``log=FILE`` (a line for each call) and ``changes`` (a second tool after the first call).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

FAULTS: dict[str, str] = {name: value for name, _, value in (word.partition("=") for word in sys.argv[1:])}
_ids = iter(range(10_000, 20_000))
_state = {"calls": 0}


def send(message: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, schema: dict[str, Any] | None = None, **annotations: bool) -> dict[str, Any]:
    """A tool as it is listed."""
    made: dict[str, Any] = {
        "name": name,
        "description": f"The tool {name}",
        "inputSchema": schema or {"type": "object"},
    }
    return {**made, "annotations": annotations} if annotations else made


def tools() -> list[dict[str, Any]]:
    """The tools of this server."""
    if "many" in FAULTS:
        text = {"type": "string", "description": "Something that takes some words to describe, as real servers do it"}
        properties = {"first": text, "second": text, "limit": {"type": "integer"}}
        return [
            tool(f"tool_{n}_lists_things", {"type": "object", "properties": properties})
            for n in range(int(FAULTS["many"]))
        ]
    if "odd-names" in FAULTS:
        referring = {"properties": {"place": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": {"type": "string"}}}
        either = {"anyOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}]}
        return [
            tool("get weather", referring),
            tool("get-weather", either),
            tool("天気"),
            tool("terminal"),
            tool("x" * 90),
        ]
    place = {"type": "object", "properties": {"text": {"type": "string"}}}
    found = [
        tool("echo", place, readOnlyHint=True),
        tool("die"),
        tool("sleep"),
        tool("big"),
        tool("fail"),
        tool("picture"),
        tool("ask"),
        tool("think"),
        tool("environment", readOnlyHint=True),
        tool("where"),
        tool("die_once", readOnlyHint=True),
    ]
    return [*found, tool("new_tool")] if "changes" in FAULTS and _state["calls"] else found


def text(value: str) -> dict[str, Any]:
    """A result with one text."""
    return {"content": [{"type": "text", "text": value}]}


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the client and wait for its answer."""
    own = next(_ids)
    send({"id": own, "method": method, "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == own and "method" not in message:
            return message.get("result") or {"error": message.get("error")}
    raise SystemExit(0)


def call(name: str, args: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a tool call; None never answers."""
    _state["calls"] += 1
    if "log" in FAULTS:
        with Path(FAULTS["log"]).open("a") as file:
            file.write(f"{os.getpid()} {name} {json.dumps(args)}\n")
    match name:
        case "die":
            os._exit(3)
        case "die_once":
            marker = Path(FAULTS["log"] + ".died")
            if not marker.exists():
                marker.touch()
                os._exit(3)
        case "sleep":
            time.sleep(float(args.get("seconds", 60)))
        case "big":
            return text("x" * int(args["bytes"]))
        case "fail":
            return {**text("it went wrong"), "isError": True}
        case "picture":
            pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
            return {"content": [{"type": "image", "data": pixel, "mimeType": "image/png"}]}
        case "environment":
            return text(json.dumps(dict(os.environ)))
        case "where":
            return text(str(Path.cwd()))
        case "ask":
            return text(json.dumps(ask("elicitation/create", args)))
        case "think":
            return text(json.dumps(ask("sampling/createMessage", args)))
        case _:
            pass
    if "changes" in FAULTS:
        send({"method": "notifications/tools/list_changed"})
    return text(f"{name}: {args.get('text', '')}")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    match method:
        case "initialize":
            capabilities: dict[str, Any] = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
            info = {"name": "faulty", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            return {"tools": tools()}
        case "tools/call":
            result = call(params["name"], params.get("arguments") or {})
            return result or {}
        case "resources/list":
            return {"resources": [{"uri": "memo://one", "name": "one"}]}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "a memo"}]}
        case "prompts/list":
            return {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
        case "prompts/get":
            greeting = {"type": "text", "text": f"Greet {params['arguments']['who']}."}
            return {"messages": [{"role": "user", "content": greeting}]}
        case _:
            raise LookupError(method)


def main() -> None:
    """Answer until the input ends."""
    if "dies" in FAULTS:
        print("fatal: no database", file=sys.stderr)
        raise SystemExit(4)
    if "silent" in FAULTS:
        time.sleep(600)
    if "banner" in FAULTS:
        print("Welcome to the faulty server!", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "garbage" in FAULTS:
            print('{"jsonrpc": "2.0", "id": ', flush=True)
        if "id" not in message or "method" not in message:
            continue
        try:
            send({"id": message["id"], "result": answer(message["method"], message.get("params") or {})})
        except LookupError as error:
            send({"id": message["id"], "error": {"code": -32601, "message": f"no such method: {error}"}})
        if "flood" in FAULTS:
            for _ in range(200):
                send({"method": "notifications/tools/list_changed"})


if __name__ == "__main__":
    main()
