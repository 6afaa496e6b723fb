"""``hermes a2a serve`` as a process: its first line, its signals, its refusals."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from hermes.testing import ScriptedProvider, tool_call
from support import is_running, run_hermes, start_hermes, without_sandbox_notice, write_config
from support.a2a_rig import UNUSED_TLS, VERSION, sse_documents, wire_message
from support.waiting import read_pid

TOKEN = "a-token-that-is-long-enough"


#: Callers without a token work in the server's folder, and may approve.
TRUSTED = "a2a:\n  principals:\n    local: {scopes: [send, read, cancel, approve], workspace: .}\n"


@contextmanager
def serving(
    home: Path, workdir: Path, *arguments: str, env: dict[str, str] | None = None
) -> Generator[tuple[subprocess.Popen[str], str]]:
    process = start_hermes(
        *("a2a", "serve", *arguments),
        home=home,
        cwd=workdir,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_ends_in_order(home: Path, workdir: Path, number: signal.Signals) -> None:
    """The turn is interrupted, its command is gone, those who wait hear of it, and the exit code is 0."""
    command = "sh -c 'echo $$ > child.pid; sleep 300' & wait"
    with ScriptedProvider([tool_call("terminal", {"command": command})]) as provider:
        write_config(home, provider.base_url, TRUSTED)
        with serving(home, workdir) as (process, url):
            assert httpx.get(f"{url}/.well-known/agent-card.json", verify=UNUSED_TLS).json()["name"] == "Hermes"
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": wire_message("sleep")}
            with httpx.stream("POST", url, json=body, headers=VERSION, timeout=60, verify=UNUSED_TLS) as response:
                pid = read_pid(workdir / "child.pid")
                process.send_signal(number)
                last = sse_documents(response.read().decode())[-1]["result"]["statusUpdate"]["status"]
            output, errors = process.communicate(timeout=60)
            assert (process.returncode, output, without_sandbox_notice(errors)) == (0, "", "")
    assert last["state"] == "TASK_STATE_FAILED" and "stopped" in last["message"]["parts"][0]["text"]
    assert not is_running(pid)


def test_a_token_of_the_environment_and_a_public_address(home: Path, workdir: Path) -> None:
    public = "https://agent.example.org/hermes"
    with ScriptedProvider("fine") as provider:
        write_config(home, provider.base_url)
        (home / ".env").write_text(f"HERMES_A2A_TOKEN={TOKEN}\n")
        (home / ".env").chmod(0o600)
        with serving(home, workdir, "--host", "0.0.0.0", "--public-url", public) as (_, url):
            card = httpx.get(f"{url}/.well-known/agent-card.json", verify=UNUSED_TLS).json()
            assert {row["url"] for row in card["supportedInterfaces"]} == {f"{public}/", f"{public}/rest"}
            assert httpx.get(f"{url}/rest/tasks", headers=VERSION, verify=UNUSED_TLS).status_code == 401
            known = {**VERSION, "Authorization": f"Bearer {TOKEN}"}
            answer = httpx.post(
                f"{url}/rest/message:send", json=wire_message(), headers=known, timeout=60, verify=UNUSED_TLS
            )
            assert answer.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert TOKEN not in (home / "logs" / "agent.log").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "no token is required"),
        (["--port", "99999"], "not a port"),
        (["--host", "203.0.113.5"], "no token is required"),
        (["--public-url", "ftp://x"], "must start with http"),
    ],
)
def test_it_refuses_to_start(home: Path, workdir: Path, arguments: list[str], words: str) -> None:
    write_config(home, "http://127.0.0.1:1/v1")
    done = run_hermes("a2a", "serve", *arguments, home=home, cwd=workdir)
    assert done.returncode in (1, 2) and words in done.stderr and done.stdout == ""


def test_a_port_that_is_taken(home: Path, workdir: Path) -> None:
    write_config(home, "http://127.0.0.1:1/v1")
    with ScriptedProvider("fine") as provider:
        port = provider.base_url.split(":")[2].split("/")[0]
        done = run_hermes("a2a", "serve", "--port", port, home=home, cwd=workdir)
    assert done.returncode == 1 and "cannot listen on 127.0.0.1 port" in done.stderr
