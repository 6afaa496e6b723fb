"""``hermes a2a serve`` in a cluster: its turns run on workers, and it follows, stops and finds them again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from hermes.journal.history.inspection import inspect_session
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, text, tool_call, tool_calls
from hermes.trace.verify.session import verify
from support import run_hermes
from support.a2a_process import LATER, A2AProcess, answer_of, serving_process, state_of
from support.a2a_rig import UNUSED_TLS, VERSION, sse_documents, wire_message
from support.cluster_rig import ClusterRig
from support.postgres_server import PostgresServer
from support.waiting import HANG, wait_until

pytestmark = pytest.mark.slow

#: Appends, so that a second run would show.
RISKY = "echo ran >> ran && rm -rf ./no-such-folder"
LOCAL = {"workspace": ".", "scopes": ["send", "read", "cancel", "approve"]}


class Hold:
    """A reply that comes when its gate is opened."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.held = threading.Event()


class Model:
    """``hold one`` and ``hold two`` run a command and wait in the second reply; ``risky`` needs an approval."""

    def __init__(self) -> None:
        self.one, self.two = Hold(), Hold()

    def __call__(self, request: RecordedRequest) -> Any:
        said = request.last_user_text
        if said == "risky":
            return by_step(tool_call("terminal", {"command": RISKY}), text("done"))(request)
        if not said.startswith("hold"):
            return text(f"Answer to {said}", chunks=4)
        step = sum(message["role"] == "tool" for message in request.messages)
        if step == 0:
            return tool_calls([("terminal", {"command": "echo step >> effects"})], content="I will look.")
        hold = self.one if said == "hold one" else self.two
        hold.held.set()
        return text(f"Answer to {said}", hold=hold.gate)


class ServedCluster:
    """A database, one home with workers and an A2A server, and the model."""

    def __init__(self, rig: ClusterRig, model: Model) -> None:
        self.rig, self.model = rig, model

    @contextmanager
    def serving(self, home: Path | None = None) -> Generator[A2AProcess]:
        with serving_process(home or self.rig.home, self.rig.cwd) as server:
            assert server.url.startswith("http"), "the server did not start"
            yield server

    def configure(self, home: Path, **sections: Any) -> None:
        path = home / "config.yaml"
        document = yaml.safe_load((self.rig.home / "config.yaml").read_text())
        home.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump({**document, **sections}))
        path.chmod(0o600)

    def sessions(self) -> list[str]:
        return [row[0] for row in self.rig.query("SELECT id FROM sessions ORDER BY created_at")]

    def check(self) -> None:
        """Nothing doubled, nothing missing."""
        host = self.rig.host()
        for session in self.sessions():
            assert verify(inspect_session(host.store, session)) == []


@contextmanager
def served_cluster(url: str, folder: Path) -> Generator[ServedCluster]:
    model = Model()
    with ScriptedProvider(model) as provider:
        rig = ClusterRig(folder, url, provider, frozen_seconds=3, slots=4)
        made = ServedCluster(rig, model)
        made.configure(rig.home, a2a={"principals": {"local": LOCAL}})
        try:
            yield made
        finally:
            model.one.gate.set()
            model.two.gate.set()
            rig.close()


@pytest.fixture
def cluster(postgres_url: str, tmp_path: Path) -> Generator[ServedCluster]:
    with served_cluster(postgres_url, tmp_path) as made:
        yield made


def test_tasks_run_on_workers(cluster: ServedCluster) -> None:
    """Streams, answers, questions of the caller and of the owner, and cancelling: all as without workers."""
    cluster.rig.start_workers(1)
    with cluster.serving() as server:
        # A stream, with text while it is said, and what the worker knows of the turn.
        body = {"jsonrpc": "2.0", "id": "1", "method": "SendStreamingMessage", "params": wire_message("hello")}
        streamed = httpx.post(server.url, json=body, headers=VERSION, timeout=HANG, verify=UNUSED_TLS)
        events = [document["result"] for document in sse_documents(streamed.text)]
        chunks = [one["artifactUpdate"] for one in events if "artifactUpdate" in one]
        assert "".join(part["text"] for chunk in chunks for part in chunk["artifact"]["parts"]) == "Answer to hello"
        assert len({chunk["artifact"]["artifactId"] for chunk in chunks}) == 1
        last = events[-1]["statusUpdate"]
        assert last["status"]["state"] == "TASK_STATE_COMPLETED"
        known = last["metadata"]
        assert (known["hermes.model"], known["hermes.steps"], known["hermes.finish_reason"]) == ("scripted", 1, "stop")
        assert known["hermes.usage"]["requests"] == 1
        # The conversation continues.
        task = server.send("again", contextId=events[0]["task"]["contextId"])
        assert answer_of(task) == "Answer to again" and len(cluster.sessions()) == 1
        # The caller approves.
        waiting = server.send("risky")
        assert state_of(waiting) == "INPUT_REQUIRED"
        done = server.send("approve", taskId=waiting["id"])
        assert (state_of(done), answer_of(done)) == ("COMPLETED", "done")
        assert (cluster.rig.cwd / "ran").read_text() == "ran\n"
        # A waiting task is canceled, and a running one within a second.
        waiting = server.send("risky")
        assert state_of(cancel(server, waiting["id"])) == "CANCELED"
        held = server.send("hold one", configuration=LATER)
        assert cluster.model.one.held.wait(HANG)
        assert state_of(cancel(server, held["id"])) == "CANCELED"
        query = "SELECT count(*) FROM turns WHERE state NOT IN ('completed', 'interrupted')"
        wait_until(lambda: cluster.rig.query(query) == [(0,)], "the end of all turns")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANG) == 0
    assert (cluster.rig.cwd / "ran").read_text() == "ran\n"
    cluster.check()


def cancel(server: A2AProcess, task_id: str) -> dict[str, Any]:
    address = f"{server.url}/rest/tasks/{task_id}:cancel"
    return httpx.post(address, json={}, headers=VERSION, timeout=HANG, verify=UNUSED_TLS).json()


def test_the_next_server_follows_what_workers_run(cluster: ServedCluster) -> None:
    """The first server is stopped in an orderly way, the second is killed; a turn ends while there is none."""
    cluster.rig.start_workers(1)
    with cluster.serving() as server:
        one = server.send("hold one", configuration=LATER)
        two = server.send("hold two", configuration=LATER)
        waiting = server.send("risky")
        assert state_of(waiting) == "INPUT_REQUIRED"
        assert cluster.model.one.held.wait(HANG) and cluster.model.two.held.wait(HANG)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(HANG) == 0
    with cluster.serving() as server:
        assert [state_of(server.task(task["id"])) for task in (one, two, waiting)] == [
            *("WORKING", "WORKING", "INPUT_REQUIRED")
        ]
        cluster.model.one.gate.set()
        assert texts_of(server.ended(one["id"])) == ["I will look.", "Answer to hold one"]
        server.kill()
    cluster.model.two.gate.set()
    ended = "SELECT count(*) FROM turns WHERE state = 'completed'"
    wait_until(lambda: cluster.rig.query(ended) == [(2,)], "the end of the turn")
    with cluster.serving() as server:
        found = server.ended(two["id"])
        assert texts_of(found) == ["I will look.", "Answer to hold two"] and found["metadata"]["hermes.steps"] == 2
        done = server.send("approve", taskId=waiting["id"])
        assert (state_of(done), answer_of(done)) == ("COMPLETED", "done")
    assert (cluster.rig.cwd / "effects").read_text() == "step\nstep\n"
    assert (cluster.rig.cwd / "ran").read_text() == "ran\n"
    cluster.check()


def texts_of(task: dict[str, Any]) -> list[str]:
    """All that the agent said in a task."""
    return [artifact["parts"][0]["text"] for artifact in task["artifacts"]]


def test_two_servers_on_one_database_leave_each_others_turns_alone(cluster: ServedCluster) -> None:
    """The callers of the second one may not approve: the owner does."""
    cluster.rig.start_workers(1)
    other = cluster.rig.home.with_name("other")
    cluster.configure(other, a2a={"principals": {"local": {**LOCAL, "scopes": ["send", "read", "cancel"]}}})
    with cluster.serving() as first:
        held = first.send("hold one", configuration=LATER)
        waiting = first.send("risky")
        assert cluster.model.one.held.wait(HANG) and state_of(waiting) == "INPUT_REQUIRED"
        with cluster.serving(other) as second:
            asking = second.send("risky", configuration=LATER)
            assert [task["id"] for task in second.tasks()] == [asking["id"]]
            asked: list[Any] = []

            def is_asked() -> bool:
                asked[:] = cluster.rig.query("SELECT id FROM questions WHERE state = 'pending' AND surface = 'owner'")
                return bool(asked)

            wait_until(is_asked, "the question to the owner")
            approved = run_hermes("approvals", "approve", asked[0][0], home=other, cwd=cluster.rig.cwd)
            assert approved.returncode == 0, approved.stderr
            assert answer_of(second.ended(asking["id"])) == "done"
        cluster.model.one.gate.set()
        assert answer_of(first.ended(held["id"])) == "Answer to hold one"
        assert answer_of(first.send("approve", taskId=waiting["id"])) == "done"
    assert (cluster.rig.cwd / "ran").read_text() == "ran\nran\n"
    cluster.check()


def test_messages_are_refused_while_the_database_is_away(own_postgres: PostgresServer, tmp_path: Path) -> None:
    with served_cluster(own_postgres.url(), tmp_path) as cluster:
        # A process that runs turns waits for the database for as long as this says, much longer than the client does.
        journal = {"url": own_postgres.url(), "wait_seconds": 60 * HANG}
        cluster.configure(cluster.rig.home, journal=journal)
        cluster.rig.start_workers(1)
        with cluster.serving() as server:

            def ask() -> httpx.Response:
                address = f"{server.url}/rest/message:send"
                body = wire_message("hello")
                return httpx.post(address, json=body, headers=VERSION, timeout=HANG, verify=UNUSED_TLS)

            assert ask().json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            own_postgres.stop(signal.SIGINT)
            refused = ask()
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert len(server.tasks()) == 1, "a message that was refused is no task"
            own_postgres.start()
            wait_until(lambda: ask().status_code == 200, "an answer after the database is back")
