"""MCP servers over HTTP: headers, failures, sign-in and refresh."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from hermes.base.config.schema.mcp import McpServerConfig
from hermes.service.mcp.transport.tokens import token_file
from hermes.surfaces.cli.main import main
from support import CERTIFICATE
from support.mcp_http_server import McpHttpServer, mcp_http_server
from support.mcp_rig import call, mcp_host, wait_for_state
from support.waiting import HANG, wait_until


def entry(server: McpHttpServer, *, auth: bool = False) -> McpServerConfig:
    return McpServerConfig(url=server.url, auth="oauth" if auth else "")


def test_a_server_is_called_with_its_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEB_TOKEN", "a-token-of-the-tests")
    with mcp_http_server() as server:
        settings = McpServerConfig(url=server.url, headers={"Authorization": "Bearer ${WEB_TOKEN}"})
        with mcp_host(tmp_path, {"web": settings}) as host:
            assert call(host, "mcp__web__echo", text="hi") == {"result": "web: hi"}
        assert {sent["Authorization"] for sent in server.seen} == {"Bearer a-token-of-the-tests"}


def test_a_closed_port_is_reported_and_a_server_that_comes_back_is_used(tmp_path: Path) -> None:
    with mcp_http_server() as server:
        settings = entry(server)
    with mcp_host(tmp_path, {"web": settings}) as host:
        assert host.mcp is not None
        assert "cannot be used" in host.mcp.status()[0].error
    with mcp_http_server() as server, mcp_host(tmp_path, {"web": entry(server)}) as host:
        assert call(host, "mcp__web__echo", text="a") == {"result": "web: a"}


def test_a_server_of_the_older_transport_is_called_with_its_headers(tmp_path: Path) -> None:
    with mcp_http_server() as server:
        settings = McpServerConfig(url=f"{server.base}/sse", transport="sse", headers={"X-Key": "mine"})
        with mcp_host(tmp_path, {"web": settings}) as host:
            assert call(host, "mcp__web__echo", text="hi") == {"result": "web: hi"}
        assert {sent["x-key"] for sent in ({k.lower(): v for k, v in one.items()} for one in server.seen)} == {"mine"}


def test_certificates_of_the_server_and_of_the_client_are_checked(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    context.load_verify_locations(CERTIFICATE)
    context.verify_mode = ssl.CERT_REQUIRED
    own = str(CERTIFICATE)
    with mcp_http_server(tls=context) as server:
        entries = {
            "good": McpServerConfig(url=server.url, ssl_verify=own, client_cert=own),
            "careless": McpServerConfig(url=server.url, ssl_verify=False, client_cert=own),
            "stranger": McpServerConfig(url=server.url, client_cert=own),
            "anonymous": McpServerConfig(url=server.url, ssl_verify=own),
            "lost": McpServerConfig(url=server.url, client_cert=str(tmp_path / "none.pem")),
        }
        with mcp_host(tmp_path, entries) as host:
            assert call(host, "mcp__good__echo", text="hi") == {"result": "web: hi"}
            assert call(host, "mcp__careless__echo", text="hi") == {"result": "web: hi"}
            assert host.mcp is not None
            states = {found.name: (found.state, found.error) for found in host.mcp.status()}
    assert {name for name, (state, _) in states.items() if state == "failed"} == {"stranger", "anonymous", "lost"}
    assert "a certificate cannot be read" in states["lost"][1]


def test_a_server_that_is_not_called_is_asked_now_and_then_if_it_still_answers(tmp_path: Path) -> None:
    with mcp_http_server() as server:
        settings = McpServerConfig(url=server.url, keepalive_interval=0.1)
        with mcp_host(tmp_path, {"web": settings}) as host:
            known = len(server.seen)
            wait_until(lambda: len(server.seen) >= known + 2, "two questions")
            server.refuses = True
            wait_for_state(host, "web", "failed")
            server.refuses = False
            assert call(host, "mcp__web__echo", text="again") == {"result": "web: again"}


def visit(address: str) -> None:
    """Be the browser: follow the redirection back to this machine."""
    threading.Thread(target=lambda: urllib.request.urlopen(address).read(), daemon=True).start()


def sign_in(home: Path, server: McpHttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(f"mcp_servers: {{web: {{url: '{server.url}', auth: oauth}}}}\n")
    monkeypatch.setattr("hermes.surfaces.cli.extend.mcp.entries._show_address", visit)
    assert main(["mcp", "login", "web"]) == 0


def test_signing_in_stores_a_private_token_that_runs_use(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with mcp_http_server(guarded=True) as server:
        sign_in(home, server, monkeypatch)
        out = capsys.readouterr().out
        assert "Signed in at web." in out
        assert "access-token" not in out
        stored = token_file(home, "web")
        assert stored.stat().st_mode & 0o777 == 0o600
        with mcp_host(home, {"web": entry(server, auth=True)}) as host:
            assert call(host, "mcp__web__echo", text="hi") == {"result": "web: hi"}
        assert [form["grant_type"] for form in server.grants] == ["authorization_code"]
        assert main(["mcp", "logout", "web"]) == 0
        assert not stored.exists()


def test_an_old_token_is_refreshed_once_and_the_refresh_token_is_kept(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mcp_http_server(guarded=True) as server:
        sign_in(home, server, monkeypatch)
        stored = token_file(home, "web")
        document = json.loads(stored.read_text())
        document["expires_at"] = time.time() - 10
        stored.write_text(json.dumps(document))
        server.valid.clear()
        server.rotates = False
        with mcp_host(home, {"web": entry(server, auth=True)}) as host:
            for _ in range(3):
                assert call(host, "mcp__web__echo", text="hi") == {"result": "web: hi"}
        assert [form["grant_type"] for form in server.grants] == ["authorization_code", "refresh_token"]
        tokens = json.loads(stored.read_text())["tokens"]
        assert tokens["access_token"] == "access-token-number-2"
        assert tokens["refresh_token"] == "refresh-token-number-1"


_CALLED = """
import sys
from pathlib import Path
from hermes.base.config import load_config
from hermes.host import Host
home = Path(sys.argv[1])
with Host(home, load_config(home).config) as host:
    print("ready", flush=True)
    sys.stdin.readline()
    print(host.services.dispatch_tool("mcp__web__echo", {"text": "hi"}))
"""


@pytest.mark.slow
def test_of_two_processes_one_refreshes_the_token(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mcp_http_server(guarded=True) as server:
        sign_in(home, server, monkeypatch)
        stored = token_file(home, "web")
        document = json.loads(stored.read_text())
        document["expires_at"] = time.time() - 10
        stored.write_text(json.dumps(document))
        server.valid.clear()
        server.token_delay = 2.0  # both have read the old token when the first new one is there
        line = [sys.executable, "-c", _CALLED, str(home)]
        processes = [
            subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home) for _ in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=HANG)[0] for process in processes]
        assert all('"web: hi"' in output for output in outputs), outputs
        assert [form["grant_type"] for form in server.grants] == ["authorization_code", "refresh_token"]


def test_a_run_without_a_sign_in_says_at_once_what_to_do(home: Path) -> None:
    with mcp_http_server(guarded=True) as server, mcp_host(home, {"web": entry(server, auth=True)}) as host:
        assert host.mcp is not None
        assert "hermes mcp login web" in host.mcp.status()[0].error


def test_tokens_of_another_address_are_not_sent(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mcp_http_server(guarded=True) as server:
        sign_in(home, server, monkeypatch)
    with mcp_http_server(guarded=True) as other, mcp_host(home, {"web": entry(other, auth=True)}) as host:
        assert host.mcp is not None
        assert "hermes mcp login" in host.mcp.status()[0].error
        assert not [sent for sent in other.seen if "access-token" in sent.get("Authorization", "")]
