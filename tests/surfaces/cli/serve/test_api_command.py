"""``hermes api`` as a process: its first line, its end, its refusals, and what is accepted when it is killed."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes.surfaces.cli.main import main
from hermes.testing import RecordedRequest, ScriptedProvider, ScriptedReply, text
from support import run_hermes, start_hermes, without_sandbox_notice, write_config
from support.a2a_rig import UNUSED_TLS
from support.waiting import wait_until

KEY = "a-key-that-is-long-enough"


@contextmanager
def serving(home: Path, workdir: Path, *arguments: str) -> Generator[tuple[subprocess.Popen[str], httpx.Client]]:
    process = start_hermes(
        *("api", "--port", "0", *arguments), home=home, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url.endswith("/v1"), process.communicate()[1]
        with httpx.Client(base_url=url, verify=UNUSED_TLS, timeout=60, headers={"x-api-key": KEY}) as client:
            yield process, client
    finally:
        process.kill()
        process.communicate()


def chat(said: str) -> dict[str, Any]:
    return {"model": "hermes-agent", "messages": [{"role": "user", "content": said}]}


def test_it_serves_the_holder_of_the_key_and_ends_in_order(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider:
        write_config(home, provider.base_url, "gateway: {api: {model_name: mine}}\n")
        (home / ".env").write_text(f"API_SERVER_KEY={KEY}\n")
        (home / ".env").chmod(0o600)
        with serving(home, workdir) as (process, client):
            document = {**chat("hello"), "model": "mine"}
            answered = client.post("/chat/completions", json=document)
            assert answered.json()["choices"][0]["message"]["content"] == "fine"
            assert client.post("/chat/completions", json=document, headers={"x-api-key": "wrong"}).status_code == 401
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=60)
            assert (process.returncode, output, without_sandbox_notice(errors)) == (0, "", "")
    assert (home / "principals" / "token" / "workspace").is_dir()


@pytest.mark.parametrize("command", ["api --port 0", "gateway run", "a2a serve --port 0"])
def test_a_provider_that_does_not_exist_is_reported_at_the_start(
    home: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write_config(home, "http://127.0.0.1:1/v1")
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.chdir(workdir)
    assert main([*command.split(), "--provider", "nosuch"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("Error: unknown provider 'nosuch'")


@pytest.mark.parametrize("option", ["0.0.0.0", "192.0.2.7"])
def test_an_address_for_others_needs_a_key(home: Path, workdir: Path, option: str) -> None:
    refused = run_hermes("api", "--host", option, home=home, cwd=workdir)
    assert refused.returncode == 1
    assert "can be reached by other machines" in refused.stderr and "API_SERVER_KEY" in refused.stderr


def test_the_gateway_serves_it_too(home: Path, workdir: Path) -> None:
    with ScriptedProvider("fine") as provider:
        write_config(home, provider.base_url, "gateway: {api: {port: 0}}\n")
        gateway = start_hermes("gateway", "run", home=home, cwd=workdir, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert gateway.stdout is not None
        try:
            line = gateway.stdout.readline().strip()
            assert line.startswith("Gateway: API at http://127.0.0.1:"), gateway.communicate()[1]
            base, _, page = line.removeprefix("Gateway: API at ").partition(", page at ")
            answered = httpx.post(f"{base}/chat/completions", json=chat("hello"), verify=UNUSED_TLS, timeout=60)
            assert answered.json()["choices"][0]["message"]["content"] == "fine"
            with httpx.Client(verify=UNUSED_TLS, timeout=60, follow_redirects=True) as browser:
                document = browser.get(page)
                assert '"chat":true' in document.text
                (session,) = browser.get(document.url.join("api/sessions")).json()
                assert (session["title"], session["state"]) == ("hello", "completed")
            second = run_hermes("api", "--port", "0", home=home, cwd=workdir)
            assert second.returncode == 1 and "another API server uses" in second.stderr
            gateway.send_signal(signal.SIGTERM)
            output, errors = gateway.communicate(timeout=60)
            assert (gateway.returncode, output, without_sandbox_notice(errors)) == (0, "", "")
        finally:
            gateway.kill()
            gateway.communicate()
    refused = run_hermes("gateway", "run", "--no-api", home=home, cwd=workdir)
    assert refused.returncode == 1 and "no platform is configured" in refused.stderr


class Model:
    """Answers only when it may."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: list[str] = []

    def __call__(self, request: RecordedRequest) -> ScriptedReply:
        self.asked.append(request.last_user_text)
        return text(f"answer to {request.last_user_text}", hold=self.gate)


def test_what_was_accepted_is_answered_after_a_kill(home: Path, workdir: Path) -> None:
    model, key = Model(), {"Idempotency-Key": "once"}
    with ScriptedProvider(model) as provider:
        write_config(home, provider.base_url)
        (home / ".env").write_text(f"API_SERVER_KEY={KEY}\n")
        (home / ".env").chmod(0o600)
        with serving(home, workdir) as (process, client):
            run_id = client.post("/runs", json={"input": "one"}).json()["run_id"]

            def ask() -> None:
                with pytest.raises(httpx.HTTPError):
                    client.post("/chat/completions", json=chat("two"), headers=key)

            asking = threading.Thread(target=ask)
            asking.start()
            wait_until(lambda: sorted(model.asked) == ["one", "two"])
            process.kill()
            process.wait(60)
            asking.join(60)
        model.gate.set()
        with serving(home, workdir) as (_, client):
            again = client.post("/chat/completions", json=chat("two"), headers=key).json()
            assert again["choices"][0]["message"]["content"] == "answer to two"
            wait_until(lambda: client.get(f"/runs/{run_id}").json()["status"] == "completed")
            assert client.get(f"/runs/{run_id}").json()["output"] == "answer to one"
            assert client.post("/chat/completions", json=chat("two"), headers=key).json() == again
    # Each was asked once more, because the first process died before the answer, and never again.
    assert sorted(model.asked) == ["one", "one", "two", "two"]
