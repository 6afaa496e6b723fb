"""``hermes mcp serve`` with the official client: prompts with progress and cancel, sessions, search, approvals."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from hermes.base.config.schema.sections import A2AConfig, ApprovalsConfig
from hermes.base.errors import HermesError
from hermes.base.http_server.principals import DEFAULT_SCOPES, Principal, Principals
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.journal.questions import Questions
from hermes.surfaces.mcp_server.http import TokenGate
from hermes.surfaces.mcp_server.server import build_server
from hermes.surfaces.mcp_server.service import AgentService
from hermes.testing import ScriptedProvider, text, tool_call
from support.configured import configured_host
from support.left_turn import COMMAND, check_taken_up_once, leave_turn
from support.waiting import HANG, wait_until

_PLAIN = Principal("")
_APPROVING = Principal("", scopes=frozenset({*DEFAULT_SCOPES, "approve"}))


def value(result: CallToolResult) -> Any:
    """What a tool returned."""
    assert not result.is_error, result.content
    found: dict[str, Any] = cast("dict[str, Any]", result.structured_content or {})
    return found.get("result", found)


@contextmanager
def serving(
    home: Path, workdir: Path, replies: list[Any], client: Principal = _PLAIN, **sections: Any
) -> Generator[tuple[Host, Callable[[Callable[[Client], Awaitable[Any]]], Any]]]:
    """A host, and a function that runs work with a client that is connected to its server."""
    with (
        ScriptedProvider(replies) as provider,
        configured_host(home, workdir, provider, options={"platform": "mcp"}, **sections) as host,
    ):
        server = build_server(AgentService(host), lambda _context: client, may_approve=client.may_approve)

        def run(work: Callable[[Client], Awaitable[Any]]) -> Any:
            async def connected() -> Any:
                async with Client(server) as connection:
                    return await asyncio.wait_for(work(connection), HANG)

            return asyncio.run(connected())

        yield host, run


def test_prompts_run_with_progress_and_continue_a_session(home: Path, workdir: Path) -> None:
    replies = [tool_call("terminal", {"command": "echo hi"}), text("first answer"), text("second answer")]
    told: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async def work(client: Client) -> None:
        first = value(await client.call_tool("run", {"prompt": "go"}, progress_callback=note))
        assert first["answer"] == "first answer"
        assert first["status"] == "completed"
        second = value(await client.call_tool("run", {"prompt": "on", "session_id": first["session_id"]}))
        assert second == {"session_id": first["session_id"], "status": "completed", "answer": "second answer"}
        listed = value(await client.call_tool("conversations_list", {}))
        assert [row["session_id"] for row in listed] == [first["session_id"]]
        messages = value(await client.call_tool("conversation_get", {"session_id": first["session_id"]}))
        assert [message["text"] for message in messages] == ["go", "first answer", "on", "second answer"]
        hits = value(await client.call_tool("sessions_search", {"query": "second"}))
        assert hits[0]["session_id"] == first["session_id"]
        wrong = await client.call_tool("run", {"prompt": "x", "session_id": "nothing"})
        assert wrong.is_error

    with serving(home, workdir, replies) as (_, run):
        run(work)
    assert told == ["terminal runs", "terminal: ok"]


def test_a_turn_that_a_killed_process_left_is_finished_before_the_next_prompt(home: Path, workdir: Path) -> None:
    with ScriptedProvider([COMMAND]) as provider:
        session_id = leave_turn(home, workdir, provider)

    async def work(client: Client) -> None:
        answer = value(await client.call_tool("run", {"prompt": "And now?", "session_id": session_id}))
        assert answer["answer"] == "Next."

    with serving(home, workdir, [text("Done."), text("Next.")]) as (host, run):
        run(work)
        messages = host.sessions.messages(session_id)
    check_taken_up_once(workdir, messages)
    assert [message["content"] for message in messages if message["role"] == "user"] == ["Go.", "And now?"]


def test_cancelling_a_call_interrupts_the_turn(home: Path, workdir: Path) -> None:
    marker = workdir / "started"
    replies = [tool_call("terminal", {"command": f"touch {marker}; sleep 600"}), text("never")]

    async def work(client: Client) -> None:
        call = asyncio.create_task(client.call_tool("run", {"prompt": "go"}))
        while not marker.exists():
            await asyncio.sleep(0.02)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    with serving(home, workdir, replies) as (host, run):
        run(work)
        [row] = host.sessions.list(limit=5)
        wait_until(lambda: getattr(host.sessions.last_turn(row.id), "state", None) == "interrupted", "the interrupt")


_ASKING = ApprovalsConfig(tools={"terminal": "ask"})


@pytest.mark.parametrize("approves", [True, False])
def test_an_approval_is_answered_by_who_may(home: Path, workdir: Path, approves: bool) -> None:
    replies = [tool_call("terminal", {"command": "echo approved"}), text("done")]
    client = _APPROVING if approves else Principal("")

    async def work(connection: Client) -> str:
        names = {tool.name for tool in (await connection.list_tools()).tools}
        assert ("approvals_respond" in names) is approves
        call = asyncio.create_task(connection.call_tool("run", {"prompt": "go"}))
        while not (waiting := value(await connection.call_tool("approvals_list", {}))):
            await asyncio.sleep(0.05)
        [question] = waiting
        assert question["answered_by"] == ("client" if approves else "owner")
        if approves:
            wrong = await connection.call_tool("approvals_respond", {"approval_id": question["id"], "answer": "maybe"})
            assert wrong.is_error
            await connection.call_tool("approvals_respond", {"approval_id": question["id"], "answer": "approve"})
        else:
            Questions(hosts[0].store).answer(question["id"], "once", "the owner said so")
        return value(await call)["answer"]

    hosts: list[Host] = []
    with serving(home, workdir, replies, client, approvals=_ASKING) as (host, run):
        hosts.append(host)
        assert run(work) == "done"
        [session] = host.sessions.list(limit=5)
        assert "approved" in json.dumps(host.sessions.messages(session.id))


def test_sessions_of_others_are_not_there(home: Path, workdir: Path) -> None:
    with serving(home, workdir, [text("mine")], Principal("someone")) as (host, run):
        with ScriptedProvider([]):
            own = host.new_session()

        async def work(client: Client) -> None:
            answer = value(await client.call_tool("run", {"prompt": "go"}))
            assert (await client.call_tool("conversation_get", {"session_id": own.id})).is_error
            listed = value(await client.call_tool("conversations_list", {}))
            assert [row["session_id"] for row in listed] == [answer["session_id"]]

        run(work)


def configure(home: Path, provider: ScriptedProvider) -> dict[str, str]:
    """Write a configuration, and return the environment for a process that uses it."""
    home.mkdir(exist_ok=True)
    model = f"{{provider: custom, base_url: '{provider.base_url}', default: m, api_key: k}}"
    (home / "config.yaml").write_text(f"model: {model}\n")
    return {**os.environ, "HERMES_HOME": str(home)}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_process_speaks_the_protocol_alone_on_stdout(home: Path, workdir: Path, mode: str) -> None:
    async def work() -> str:
        line = ["-m", "hermes", "mcp", "serve"]
        server = StdioServerParameters(command=sys.executable, args=line, env=environment, cwd=workdir)
        async with Client(server, mode=mode) as client:
            return value(await client.call_tool("run", {"prompt": "go"}))["answer"]

    with ScriptedProvider([text("over stdio")]) as provider:
        environment = configure(home, provider)
        assert asyncio.run(asyncio.wait_for(work(), HANG)) == "over stdio"


def test_http_wants_a_token_and_knows_its_own_names(home: Path, workdir: Path) -> None:
    token = "a-token-that-is-long-enough"

    async def work(address: str) -> None:
        async with httpx2.AsyncClient() as http:
            assert (await http.post(address, json={})).status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            for wrong in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                answer = await http.post(address, json=body, headers={**wrong, "Accept": "application/json"})
                assert answer.status_code in (403, 421), answer.text
            async with Client(streamable_http_client(address, http_client=http)) as client:
                assert value(await client.call_tool("run", {"prompt": "go"}))["answer"] == "over http"
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert "approvals_respond" not in names

    with ScriptedProvider([text("over http")]) as provider:
        environment = {**configure(home, provider), "HERMES_A2A_TOKEN": token}
        line = [sys.executable, "-m", "hermes", "mcp", "serve", "--http"]
        with subprocess.Popen(line, env=environment, cwd=workdir, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                asyncio.run(asyncio.wait_for(work(process.stdout.readline().strip()), HANG))
            finally:
                process.terminate()
        assert process.returncode == 0


def test_an_open_address_needs_tokens(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hermes.surfaces.cli.main import main

    assert main(["mcp", "serve", "--http", "--host", "0.0.0.0"]) == 1
    assert "no token is required" in capsys.readouterr().err


def test_texts_are_what_a_client_shows(home: Path, workdir: Path) -> None:
    async def work(client: Client) -> None:
        result = await client.call_tool("run", {"prompt": " "})
        assert result.is_error
        [block] = result.content
        assert isinstance(block, TextContent)
        assert "prompt is empty" in block.text

    with serving(home, workdir, []) as (_, run):
        run(work)


_OWN = {"host": "127.0.0.1:8", "content-type": "application/json"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://127.0.0.1:8"}, 200),
        ({"origin": "http://127.0.0.1:3000"}, 403),  # a page of a development server
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"host": "evil.example"}, 403),
        ({"content-length": "99999999999"}, 413),
    ],
)
def test_without_a_token_web_pages_and_long_requests_are_refused(headers: dict[str, str], status: int) -> None:
    gate = TokenGate(Principals(), _served_app, _served_app, A2AConfig())
    assert _post(gate, {**_OWN, **headers}) == status


def test_a_body_without_a_length_and_a_flood_of_requests_are_limited() -> None:
    settings = A2AConfig(max_body_bytes=10, max_requests_per_minute=2)
    gate = TokenGate(Principals(), _served_app, _served_app, settings)
    assert [_post(gate, _OWN, body) for body in (b"x" * 11, b"{}", b"{}")] == [413, 200, 429]


async def _served_app(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await PlainTextResponse("served")(scope, receive, send)


def _post(gate: TokenGate, headers: dict[str, str], body: bytes = b"{}") -> int:
    """The status that a request is answered with."""
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(gate({"type": "http", "method": "POST", "path": "/mcp", "headers": raw}, receive, send))
    return sent[0]["status"]


def test_the_prompts_of_a_caller_are_limited(home: Path, workdir: Path) -> None:
    caller = Principal("bob")
    with serving(home, workdir, [text("done")], a2a=A2AConfig(max_tasks_of_caller=1)) as (host, _):
        service = AgentService(host)

        def again(**_fields: Any) -> None:
            with pytest.raises(HermesError, match="too many prompts run already"):
                service.run(caller, "second", "", print, Interrupt())
            refused.append(True)

        refused: list[bool] = []
        host.hooks.subscribe("pre_llm_call", "test", again)
        assert service.run(caller, "first", "", print, Interrupt())["answer"] == "done"
        assert refused
