"""Webhooks: configured over both bindings, told of changed states, and never on the way of a task."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.base.config import A2AConfig
from hermes.base.config.schema.sections import A2APushConfig
from hermes.testing import ScriptedProvider, text
from support.a2a_rig import Served, served, wait_until, wire_message

LOCAL = A2AConfig(push=A2APushConfig(allowed_hosts=["127.0.0.1"]))


class Webhook:
    """Takes what is posted to it, after a pause if it is a slow one."""

    def __init__(self, pause: float) -> None:
        self.posts: list[tuple[dict[str, str], Any]] = []
        self.pause = threading.Event()
        self.seconds = pause
        self.url = ""


@contextmanager
def webhook(pause: float = 0.0) -> Generator[Webhook]:
    hook = Webhook(pause)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.pause.wait(hook.seconds)
            hook.posts.append((dict(self.headers), msgspec.json.decode(body)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        hook.url = f"http://127.0.0.1:{server.server_port}/hook"
        try:
            yield hook
        finally:
            hook.pause.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def agent(home: Path, workdir: Path) -> Generator[Served]:
    script = text("Hello there.", chunks=5)
    with ScriptedProvider(script) as provider, served(home, workdir, provider, LOCAL) as running:
        yield running


def test_webhooks_over_json_rpc(agent: Served) -> None:
    task = agent.rpc("SendMessage", wire_message())["result"]["task"]["id"]
    made = agent.rpc("CreateTaskPushNotificationConfig", {"taskId": task, "url": "http://127.0.0.1:9/a"})["result"]
    assert (made["taskId"], made["id"]) == (task, task)
    other = {"taskId": task, "id": "other", "url": "http://127.0.0.1:9/b", "token": "t"}
    assert agent.rpc("CreateTaskPushNotificationConfig", other)["result"]["token"] == "t"
    listed = agent.rpc("ListTaskPushNotificationConfigs", {"taskId": task})["result"]["configs"]
    assert {row["id"] for row in listed} == {task, "other"}
    found = agent.rpc("GetTaskPushNotificationConfig", {"taskId": task, "id": "other"})["result"]
    assert found["url"] == "http://127.0.0.1:9/b"
    assert agent.rpc("DeleteTaskPushNotificationConfig", {"taskId": task, "id": "other"})["result"] is None
    gone = agent.rpc("GetTaskPushNotificationConfig", {"taskId": task, "id": "other"})
    assert gone["error"]["code"] == -32001
    for method in ("List", "Get", "Delete", "Create"):
        params = {"taskId": "unknown", "id": "x", "url": "http://127.0.0.1:9/a"}
        suffix = "s" if method == "List" else ""
        refused = agent.rpc(f"{method}TaskPushNotificationConfig{suffix}", params)
        assert refused["error"]["code"] == -32001, method
    for url in ("http://10.0.0.1/hook", "ftp://127.0.0.1/x", "no address"):
        refused = agent.rpc("CreateTaskPushNotificationConfig", {"taskId": task, "url": url})
        assert refused["error"]["code"] == -32602, url
    assert agent.get("/.well-known/agent-card.json").json()["capabilities"]["pushNotifications"] is True


def test_webhooks_over_http(agent: Served) -> None:
    task = agent.post("/rest/message:send", wire_message()).json()["task"]["id"]
    path = f"/rest/tasks/{task}/pushNotificationConfigs"
    assert agent.post(path, {"id": "one", "url": "http://127.0.0.1:9/a"}).json()["id"] == "one"
    assert [row["id"] for row in agent.get(path).json()["configs"]] == ["one"]
    assert agent.get(f"{path}/one").json()["url"] == "http://127.0.0.1:9/a"
    assert agent.delete(f"{path}/one").status_code == 200
    assert agent.get(f"{path}/one").status_code == 404
    assert agent.post(path, {"url": "http://192.168.0.1/a"}).status_code == 400


@pytest.mark.parametrize("pause", [0.0, 1.0])
def test_a_webhook_gets_states_without_delaying_the_task(agent: Served, pause: float) -> None:
    with webhook(pause) as hook:
        config = {"taskPushNotificationConfig": {"url": hook.url, "token": "my-token"}}
        task = agent.rpc("SendMessage", {**wire_message(), "configuration": config})["result"]["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
        if pause:
            assert hook.posts == []  # the task did not wait for it
            hook.pause.set()
        wait_until(lambda: len(hook.posts) == 3)
    bodies = [body for _, body in hook.posts]
    assert [next(iter(body)) for body in bodies] == ["task", "statusUpdate", "statusUpdate"]
    states = [next(iter(body.values()))["status"]["state"] for body in bodies]
    assert states == ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]
    assert {headers["X-A2A-Notification-Token"] for headers, _ in hook.posts} == {"my-token"}
