"""Red team: sentinel secrets in every place that can hold one, a model that repeats them in every encoding, and a
search through everything that came out: requests, outputs, files, exports, replies.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from mcp import Client

from hermes.base.config import A2AConfig, PrincipalConfig
from hermes.base.http_server.principals import Principal
from hermes.host import Host
from hermes.surfaces.acp.server import AcpServer
from hermes.surfaces.mcp_server.server import build_server
from hermes.surfaces.mcp_server.service import AgentService
from hermes.testing import OtlpReceiver, ScriptedProvider
from support import run_hermes
from support.a2a_rig import served, wire_message
from support.configured import configured_host
from support.langfuse_rig import LangfuseServer
from support.red_team import SENTINELS, all_of_them, check, found_in, model, plant, recorded, written
from support.relay_rig import relay_env, relay_host
from support.waiting import HANG


def test_the_search_finds_what_is_not_masked() -> None:
    assert len({hit.partition(":")[0] for hit in found_in(all_of_them())}) == len(SENTINELS)
    assert len({hit.partition(":")[0] for hit in found_in(json.dumps(all_of_them()))}) == len(SENTINELS)


SURFACES = (
    ("chat", "--yolo", "-q"),
    ("chat", "--yolo", "-Q", "-q"),
    ("chat", "--yolo", "--json", "-q"),
    ("chat", "--yolo", "--stream-json", "-v", "-q"),
)
READERS = (
    ("sessions", "list", "--json"),
    ("sessions", "show", "ID"),
    ("sessions", "show", "ID", "--json", "--events"),
    ("sessions", "show", "ID", "--events"),
    *(("sessions", "export", "ID", "--format", form) for form in ("jsonl", "json", "markdown")),
    ("sessions", "search", "the"),
    ("trace", "show", "ID"),
    *(("trace", "export", "ID", "--format", form) for form in ("jsonl", "atof", "atif", "otlp", "openinference")),
    ("trace", "html", "ID", "-o", "-"),
    ("approvals", "--json"),
    ("approvals", "pending"),
    ("config", "show"),
    ("doctor", "--json"),
    ("doctor",),
    ("usage",),
    ("plugins", "list", "--json"),
    ("gateway", "status"),
    ("logs",),
    ("chat", "--resume", SENTINELS["env file, no name"], "-q", "hi"),
)


@pytest.mark.slow
def test_nothing_leaves_through_the_command_line_and_its_exporters(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "leak.txt").write_text(all_of_them())
    out: dict[str, str] = {}
    with ExitStack() as stack:
        provider = stack.enter_context(ScriptedProvider(model(work / "leak.txt", home)))
        collector = stack.enter_context(OtlpReceiver())
        langfuse = stack.enter_context(LangfuseServer("pk-lf-1", SENTINELS["langfuse"]))
        env = plant(home, provider.base_url) | {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "HERMES_OTEL_CAPTURE_CONTENT": "true",
            "LANGFUSE_PUBLIC_KEY": "pk-lf-1",
            "LANGFUSE_BASE_URL": langfuse.url,
        }
        for surface in SURFACES:
            done = run_hermes(*surface, f"My key is {SENTINELS['shell variable']}", home=home, cwd=work, env=env)
            assert done.returncode == 0, done.stderr[-2000:]
            out[" ".join(surface)] = done.stdout + done.stderr
        listed = run_hermes("sessions", "list", "--json", home=home, cwd=work, env=env)
        session_id = json.loads(listed.stdout)[0]["id"]
        for reader in READERS:
            command = [session_id if part == "ID" else part for part in reader]
            done = run_hermes(*command, home=home, cwd=work, env=env)
            out[" ".join(reader)] = done.stdout + done.stderr
        requests = [json.dumps(request.body, ensure_ascii=False) for request in provider.requests]
        exported = {"otel": collector.spans, "langfuse": langfuse.spans}
    assert len(requests) == 2 * len(SURFACES)
    for name, spans in exported.items():
        assert spans, name
        out[name] = repr(spans)
    out |= {f"request {number}": body for number, body in enumerate(requests)}
    out |= {"journal": recorded(home), **dict(written(home))}
    assert {name: found for name, content in out.items() if (found := found_in(content))} == {}
    scripts = [body for body in requests if "tool_calls_made" in body]
    assert scripts and all("the plugin entry is <redacted:" in body for body in scripts), "the script did not run"
    assert "<redacted:LAB_KEY>" in requests[1] and "<redacted:model.api_key>" in out["journal"]
    # What the sessions hold is still there, only without the secrets.
    assert "the principal is <redacted:ALICE>" in out["sessions export ID --format markdown"]


def test_nothing_leaves_through_the_a2a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "leak.txt").write_text(all_of_them())
    with ScriptedProvider(model(work / "leak.txt", home)) as provider:
        for name, value in plant(home, provider.base_url).items():
            monkeypatch.setenv(name, value)
        # The server's own configuration is made by the rig: its secrets come from the files and the environment.
        for place in ("model.api_key", "extra_headers", "userinfo", "plugin entry", "delegation"):
            monkeypatch.setenv(f"{place.upper().replace(' ', '_').replace('.', '_')}_SECRET", SENTINELS[place])
        settings = A2AConfig(
            answer_in_status=True, files=True, principals={"alice": PrincipalConfig(token_env="ALICE")}
        )
        environment = {"ALICE": SENTINELS["principal"]}
        with served(home, work, provider, settings, env=environment) as agent:
            headers = {"Authorization": f"Bearer {SENTINELS['principal']}"}
            monkeypatch.setenv("ODDLY_NAMED_SECRET", SENTINELS["env file, named by a setting"])
            agent.host.redactor.add_secret(SENTINELS["env file, named by a setting"], "ODDLY_NAMED")
            whole = agent.post("/rest/message:send", wire_message("go"), headers=headers).text
            streamed = agent.post("/rest/message:stream", wire_message("go"), headers=headers).text
        requests = [json.dumps(request.body, ensure_ascii=False) for request in provider.requests]
    out = {"reply": whole, "stream": streamed, "journal": recorded(home), **dict(written(home))}
    out |= {f"request {number}": body for number, body in enumerate(requests)}
    assert "<redacted:" in whole and "<redacted:" in streamed
    assert {name: found for name, content in out.items() if (found := found_in(content))} == {}


def test_nothing_leaves_through_relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, work, folder = tmp_path / "home", tmp_path / "work", tmp_path / "relay"
    work.mkdir()
    (work / "leak.txt").write_text(all_of_them())
    for name, value in relay_env(folder).items():
        monkeypatch.setenv(name, value)
    for number, secret in enumerate(SENTINELS.values()):
        monkeypatch.setenv(f"SERVICE_{number}_TOKEN", secret)
    with ScriptedProvider(model(work / "leak.txt", home)) as provider:
        host: Host = relay_host(home, work, provider, options={"allow_everything": True})
        with host:
            host.new_session().run(f"My key is {SENTINELS['shell variable']}")
    files = {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert len(files) >= 2 and all("<redacted:" in content for content in files.values())
    assert {name: found for name, content in files.items() if (found := found_in(content))} == {}


@pytest.fixture
def leaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[Host, ScriptedProvider]]:
    """A host whose shell has all the secrets, with a model that repeats them, for surfaces of other programs."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "leak.txt").write_text(all_of_them())
    for number, secret in enumerate(SENTINELS.values()):
        monkeypatch.setenv(f"SERVICE_{number}_TOKEN", secret)
    options = {"allow_everything": True, "toolsets": ["hermes-cli", "code_execution"]}
    with (
        ScriptedProvider(model(work / "leak.txt", home)) as provider,
        configured_host(home, work, provider, options=options) as host,
    ):
        yield host, provider


def test_nothing_leaves_through_an_editor(leaking: tuple[Host, ScriptedProvider]) -> None:
    host, provider = leaking
    ours, theirs = socket.socketpair()
    ours.settimeout(HANG)
    source, sink = theirs.makefile("rb"), theirs.makefile("wb")
    thread = threading.Thread(target=AcpServer(source, sink, lambda _cwd: host).run, daemon=True)
    thread.start()
    lines: list[str] = []
    with ours, theirs, source, sink, ours.makefile("rb") as replies:

        def ask(number: int, method: str, **params: Any) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            ours.sendall(msgspec.json.encode(message) + b"\n")
            while True:
                lines.append(replies.readline().decode())
                answer = json.loads(lines[-1])
                if answer.get("id") == number and "method" not in answer:
                    return answer["result"]

        ask(1, "initialize", protocolVersion=1, clientCapabilities={})
        session = ask(2, "session/new", cwd=str(host.cwd), mcpServers=[])["sessionId"]
        prompt = [{"type": "text", "text": f"My key is {SENTINELS['shell variable']}"}]
        ask(3, "session/prompt", sessionId=session, prompt=prompt)
        ask(4, "session/list")
        ask(5, "session/load", sessionId=session, cwd=str(host.cwd), mcpServers=[])
        ours.shutdown(socket.SHUT_WR)
        thread.join(HANG)
    check(host, provider, "".join(lines))


def test_nothing_leaves_through_the_mcp_server(leaking: tuple[Host, ScriptedProvider]) -> None:
    host, provider = leaking
    said: list[str] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        said.append(message or "")

    async def work() -> None:
        server = build_server(AgentService(host), lambda _context: Principal(""), may_approve=False)
        async with Client(server) as client:
            prompt = {"prompt": f"My key is {SENTINELS['shell variable']}"}
            done = await client.call_tool("run", prompt, progress_callback=note)
            said.append(done.model_dump_json())
            session = cast("dict[str, Any]", done.structured_content)
            session_id = session.get("result", session)["session_id"]
            for tool, args in (
                ("conversations_list", {}),
                ("conversation_get", {"session_id": session_id}),
                ("sessions_search", {"query": "key"}),
            ):
                said.append((await client.call_tool(tool, args)).model_dump_json())

    asyncio.run(asyncio.wait_for(work(), HANG))
    check(host, provider, "".join(said))
