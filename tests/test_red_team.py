"""Red team: sentinel secrets in every place that can hold one, a model that repeats them in every encoding, and a
search through everything that came out: requests, outputs, files, exports, replies.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import socket
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import msgspec
import pytest

from hermes.acp.server import AcpServer
from hermes.config import A2AConfig, PrincipalConfig
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.journal.sqlite.store import SqliteStore
from hermes.mcp_server.client import ServedClient
from hermes.mcp_server.server import build_server
from hermes.mcp_server.service import AgentService
from hermes.record.audit.evidence import export_evidence
from hermes.record.bundle import write_bundle
from hermes.testing import OtlpReceiver, RecordedRequest, ScriptedProvider, text, tool_calls
from hermes.tools.files.guard import FileGuard
from mcp import Client
from support import run_hermes
from support.a2a_rig import served, wire_message
from support.configured import configured_host
from support.langfuse_rig import LangfuseServer
from support.relay_rig import relay_env, relay_host
from support.waiting import HANG

#: One secret for each place; none looks like a key of a known service.
PLACES = (
    *("model.api_key", "extra_headers", "userinfo", "plugin entry", "delegation"),
    *("env file, secret name", "env file, named by a setting", "env file, no name", "database address"),
    *("principal", "auth.json", "refresh token", "shell variable", "langfuse"),
)
SENTINELS = {
    place: f"qz{number:02}+Kx/{place[:4].strip()}_w7Vd-{number * 7919:06}uT" for number, place in enumerate(PLACES)
}
SENTINELS["userinfo"] = "qz02Kx-userinfo-w7Vd-015838uT"
SENTINELS["database address"] = "qz08Kx-database-w7Vd-063352uT"


def encodings(secret: str) -> Iterator[str]:
    """Every form in which a secret must not be found."""
    data = secret.encode()
    yield secret
    yield secret[::-1]
    yield data.hex()
    yield data.hex().upper()
    yield quote(secret, safe="")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for shift in range(3):
            yield encode(b"abc"[:shift] + data + b"defg").decode()


def all_of_them() -> str:
    """A text with every secret in every form, some of it broken into lines."""
    lines: list[str] = []
    for place, secret in SENTINELS.items():
        forms = list(encodings(secret))
        whole = base64.encodebytes(f"{place}\n{secret}\n".encode() * 4).decode()
        lines += [f"the {place} is {secret};", *forms, whole, "\n".join(re.findall(".{1,24}", forms[-1]))]
    return "\n".join(lines)


def found_in(haystack: str) -> list[str]:
    """The forms that the text contains, also across line breaks and escapes."""
    joined = re.sub(r"\\+[nr]|[\s\\\"]|(?<=n) *\d+\|", "", haystack)
    hits: list[str] = []
    for place, secret in SENTINELS.items():
        for form in encodings(secret):
            # The ends of an encoding depend on what stands around the secret.
            core = form[4:-8]
            if core in haystack or core in joined:
                hits.append(f"{place}: {form}")
    return hits


def script_of(leak: Path) -> str:
    """A script that prints what it can read, by itself and by a tool."""
    return (
        f"import os\nfrom hermes_tools import read_file\nprint(open({str(leak)!r}).read(), dict(os.environ))\n"
        f"print(read_file(path={str(leak)!r}), {SENTINELS['refresh token']!r})"
    )


def model(leak: Path, home: Path) -> Any:
    """Reads what it can, then repeats everything."""

    def choose(request: RecordedRequest) -> Any:
        if request.step == 0:
            return tool_calls(
                [
                    ("read_file", {"path": str(leak)}),
                    ("terminal", {"command": f"cat {leak}; env; echo {SENTINELS['auth.json']}"}),
                    ("read_file", {"path": str(home / ".env")}),
                    ("read_file", {"path": str(home / "config.yaml")}),
                    ("search_files", {"pattern": "the .* is", "path": str(leak)}),
                    ("terminal", {"command": f"cd {SENTINELS['model.api_key']}"}),
                    ("execute_code", {"code": script_of(leak)}),
                ],
                content=f"I look at {SENTINELS['principal']}",
            )
        return text(all_of_them(), chunks=40)

    return choose


def test_the_search_finds_what_is_not_masked() -> None:
    assert len({hit.partition(":")[0] for hit in found_in(all_of_them())}) == len(SENTINELS)
    assert len({hit.partition(":")[0] for hit in found_in(json.dumps(all_of_them()))}) == len(SENTINELS)


def plant(home: Path, base_url: str) -> dict[str, str]:
    """Put the secrets into a home; returns the environment of the shell."""
    home.mkdir(parents=True, exist_ok=True)
    config = {
        "model": {
            "provider": "custom",
            "default": "scripted",
            "base_url": base_url,
            "api_key": SENTINELS["model.api_key"],
            "extra_headers": {"X-Lab": SENTINELS["extra_headers"]},
        },
        "providers": {
            "other": {"base_url": f"https://me:{SENTINELS['userinfo']}@models.example/v1"},
            "third": {"base_url": "https://models.example/v1", "key_env": "ODDLY_NAMED"},
        },
        "agent": {"api_max_retries": 0},
        "toolsets": ["hermes-cli", "code_execution"],
        "delegation": {"api_key": SENTINELS["delegation"]},
        "plugins": {
            "enabled": ["observability/otel", "observability/langfuse"],
            "entries": {"thing": {"client_secret": SENTINELS["plugin entry"]}},
        },
        "a2a": {"principals": {"alice": {"token_env": "ALICE"}}},
    }
    (home / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    lines = {
        "LAB_KEY": SENTINELS["env file, secret name"],
        "ODDLY_NAMED": SENTINELS["env file, named by a setting"],
        "SETTING": SENTINELS["env file, no name"],
        "DATABASE_URL": f"postgres://app:{SENTINELS['database address']}@db.example/app",
        "ALICE": SENTINELS["principal"],
    }
    (home / ".env").write_text("".join(f"{name}='{value}'\n" for name, value in lines.items()))
    stored = {"id": "1", "access_token": SENTINELS["auth.json"], "refresh_token": SENTINELS["refresh token"]}
    (home / "auth.json").write_text(json.dumps({"version": 1, "credential_pool": {"acme": [stored]}}))
    for name in (".env", "auth.json", "config.yaml"):
        (home / name).chmod(0o600)
    return {"SERVICE_TOKEN": SENTINELS["shell variable"], "LANGFUSE_SECRET_KEY": SENTINELS["langfuse"]}


def recorded(home: Path) -> str:
    """Everything in the journal, as it is stored."""
    store = SqliteStore(home / "state.db")
    try:
        sessions = Sessions(store)
        rows = sessions.list(limit=1_000, children=True)
        return "".join(msgspec.json.encode(sessions.export(row.id)).decode() for row in rows)
    finally:
        store.close()


def written(home: Path) -> Iterator[tuple[str, str]]:
    """Every file of the home but those that the secrets were planted in."""
    for path in sorted(home.rglob("*")):
        if path.name == "config.yaml.parsed":  # the same document once more, as private and as protected
            assert path.stat().st_mode & 0o077 == 0 and FileGuard(home).refusal(path) is not None
        elif path.is_file() and path.name not in (".env", "auth.json", "config.yaml"):
            yield str(path), path.read_bytes().decode("latin-1")


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
    ("approvals", "--json"),
    ("config", "show"),
    ("doctor", "--json"),
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


def check(host: Host, provider: ScriptedProvider, said: str) -> None:
    """Nothing is in what a surface said, in the requests and in the files of the home."""
    out = {"said": said, "journal": recorded(host.home), **dict(written(host.home))}
    out |= {f"request {number}": json.dumps(one.body) for number, one in enumerate(provider.requests)}
    for row in host.sessions.list():
        out[f"bundle of {row.id}"] = write_bundle(host.store, row.id)
        out[f"evidence of {row.id}"] = export_evidence(host.store, row.id, []).decode()
    assert len(provider.requests) == 2 and "<redacted:" in said
    assert {name: found for name, content in out.items() if (found := found_in(content))} == {}


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
        server = build_server(AgentService(host), lambda _context: ServedClient(), may_approve=False)
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
