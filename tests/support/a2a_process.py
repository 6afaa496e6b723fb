"""``hermes a2a serve`` as a process, and its callers' view of it over REST."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from support import start_hermes
from support.a2a_rig import UNUSED_TLS, VERSION, wire_message
from support.waiting import HANG, wait_until

LATER = {"returnImmediately": True}


class A2AProcess:
    """A running server, as its callers see it."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def send(self, words: str, *, configuration: dict[str, Any] | None = None, **more: str) -> dict[str, Any]:
        body = {**wire_message(words, **more), "configuration": configuration or {}}
        return self._call("POST", "/rest/message:send", json=body)["task"]

    def tasks(self) -> list[dict[str, Any]]:
        return self._call("GET", "/rest/tasks?includeArtifacts=true")["tasks"]

    def task(self, task_id: str) -> dict[str, Any]:
        return self._call("GET", f"/rest/tasks/{task_id}")

    def ended(self, task_id: str) -> dict[str, Any]:
        """The task once it has ended."""
        wait_until(lambda: state_of(self.task(task_id)) in ("COMPLETED", "FAILED"), "the end of the task")
        return self.task(task_id)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(HANG)

    def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        address = self.url + path
        return httpx.request(method, address, headers=VERSION, timeout=HANG, verify=UNUSED_TLS, **options).json()


@contextmanager
def serving_process(home: Path, workdir: Path, crash_at: int = 0) -> Generator[A2AProcess]:
    env = {"HERMES_CRASH_AT": str(crash_at)} if crash_at else {}
    process = start_hermes("a2a", "serve", home=home, cwd=workdir, env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield A2AProcess(process, process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def state_of(task: dict[str, Any]) -> str:
    """The state of a task, without the words that all have."""
    return task["status"]["state"].removeprefix("TASK_STATE_")


def answer_of(task: dict[str, Any]) -> str:
    """The text of its last artifact."""
    return task["artifacts"][-1]["parts"][0]["text"]
