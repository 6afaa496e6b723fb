"""Approvals that are answered later when a worker on PostgreSQL runs the turn: what fires is what the table says.

The API server and the worker are processes of their own. The worker fires the hooks; the end of a turn that is stopped
while it waits, and is on no worker then, is fired by the server that stops it.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes.testing import ScriptedProvider, by_step, text, tool_call
from support import run_hermes, start_hermes
from support.a2a_rig import UNUSED_TLS
from support.approval_rig import RISKY
from support.delivery import EXPECTED
from support.event_files import EventFile
from support.late_surfaces import LONG
from support.waiting import HANG, wait_until

pytestmark = pytest.mark.slow


class Cluster:
    """A home on a database, with a worker and an API server."""

    def __init__(self, folder: Path, url: str, provider: ScriptedProvider) -> None:
        self.home, self.cwd, self._url, self._provider = folder / "home", folder / "work", url, provider
        self.cwd.mkdir()
        self.events = EventFile(self.home, folder / "events.jsonl")
        self._processes: list[subprocess.Popen[str]] = []

    @contextmanager
    def serving(self, seconds: float = LONG) -> Generator[None]:
        """Both, until the end of the block; an approval has so many seconds."""
        local = {"workspace": str(self.cwd), "scopes": ["send", "read", "cancel", "approve"]}
        model = {"provider": "custom", "default": "m", "base_url": self._provider.base_url, "api_key": "test-key"}
        config: dict[str, Any] = {
            "model": model,
            "journal": {"url": self._url},
            "plugins": {"enabled": ["writer"]},
            "principals": {"local": local},
            "gateway": {"approval_timeout": seconds},
        }
        (self.home / "config.yaml").write_text(json.dumps(config))
        try:
            self.start_worker()
            found = re.search(r"http\S+/v1", self._start("api", "--port", "0"))
            assert found is not None
            self._address = found[0]
            yield
        finally:
            for process in reversed(self._processes):
                end(process)

    def start_worker(self) -> None:
        assert self._start("worker").startswith("worker ")

    def end_worker(self) -> None:
        end(self._processes.pop(0))

    def _start(self, *command: str) -> str:
        """A process; its first line."""
        process = start_hermes(*command, home=self.home, cwd=self.cwd, stdout=subprocess.PIPE)
        self._processes.append(process)
        assert process.stdout is not None
        return process.stdout.readline()

    def post(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        response = httpx.post(self._address + path, json=document, timeout=HANG, verify=UNUSED_TLS)
        assert response.status_code < 300, response.text
        return response.json()

    def begin(self) -> None:
        self.run: str = self.post("/runs", {"input": "go"})["run_id"]

    def wait_for(self, status: str) -> None:
        address = f"{self._address}/runs/{self.run}"
        wait_until(lambda: httpx.get(address, verify=UNUSED_TLS).json()["status"] == status, f"the run to be {status}")

    def compare(self, name: str, choice: str, by: str | None, processes: int = 1, **more: int) -> None:
        """What so many processes fired, together."""
        by_process = self.events.fired()
        assert len(by_process) == processes
        fired = sum(by_process.values(), Counter[str]())
        assert dict(fired) == {site: count for site, count in {**EXPECTED[name], **more}.items() if count}
        [asked], [answered] = self.events.events("pre_approval_request"), self.events.events("post_approval_response")
        assert (answered["surface"], answered["choice"], answered.get("decided_by")) == ("api_server", choice, by)
        assert asked["tool_call_id"] == answered["tool_call_id"]
        verified = run_hermes("trace", "verify", "--all", home=self.home, cwd=self.cwd)
        assert verified.returncode == 0, verified.stdout


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANG)


@pytest.fixture
def cluster(tmp_path: Path, postgres_url: str) -> Generator[Cluster]:
    with ScriptedProvider(by_step(tool_call("terminal", {"command": RISKY}), text("done"))) as provider:
        yield Cluster(tmp_path, postgres_url, provider)


@pytest.mark.parametrize("by", ["local", "owner"])
def test_answered_later(cluster: Cluster, by: str) -> None:
    with cluster.serving():
        cluster.begin()
        cluster.wait_for("waiting")
        assert cluster.events.events("post_tool_call") == cluster.events.events("on_session_end") == []
        if by == "local":
            cluster.post(f"/runs/{cluster.run}/approval", {"choice": "approve"})
        else:
            listed = run_hermes("approvals", "pending", "--json", home=cluster.home, cwd=cluster.cwd)
            found = re.search(r"appr_\w+", listed.stdout)
            assert found is not None, listed.stdout
            run_hermes("approvals", "approve", found[0], home=cluster.home, cwd=cluster.cwd)
        cluster.wait_for("completed")
    cluster.compare("answered later", "once", by)


def test_answered_after_a_restart(cluster: Cluster) -> None:
    with cluster.serving():
        cluster.begin()
        cluster.wait_for("waiting")
        cluster.end_worker()
        cluster.post(f"/runs/{cluster.run}/approval", {"choice": "approve"})
        cluster.start_worker()
        cluster.wait_for("completed")
    cluster.compare("answered after a restart", "once", "local", processes=2)


def test_timed_out(cluster: Cluster) -> None:
    with cluster.serving(seconds=0.2):
        cluster.begin()
        cluster.wait_for("completed")
    cluster.compare("timed out", "timeout", None)
    assert not (cluster.cwd / "ran").exists()


def test_stopped(cluster: Cluster) -> None:
    with cluster.serving():
        cluster.begin()
        cluster.wait_for("waiting")
        cluster.post(f"/runs/{cluster.run}/stop", {})
        cluster.wait_for("cancelled")
    # Each process ends what it has of the session.
    cluster.compare("client gone", "deny", None, processes=2, on_session_resume=1, on_session_finalize=2)
