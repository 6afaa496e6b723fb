"""``hermes a2a serve`` in a cluster: it follows and stops what workers run, and two servers share their tasks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
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
from support.webhook import webhook

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
        assert state_of(done) == "COMPLETED", done
        assert answer_of(done) == "done"
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
        assert state_of(done) == "COMPLETED", done
        assert answer_of(done) == "done"
    assert (cluster.rig.cwd / "effects").read_text() == "step\nstep\n"
    assert (cluster.rig.cwd / "ran").read_text() == "ran\n"
    cluster.check()


def texts_of(task: dict[str, Any]) -> list[str]:
    """All that the agent said in a task."""
    return [artifact["parts"][0]["text"] for artifact in task["artifacts"]]


class TwoServers:
    """Two servers with homes of their own and one database, for one caller."""

    def __init__(self, cluster: ServedCluster, first: A2AProcess, second: A2AProcess) -> None:
        self.cluster, self.first, self.second = cluster, first, second

    def states(self, task_id: str) -> tuple[str, str]:
        return state_of(self.first.task(task_id)), state_of(self.second.task(task_id))

    def agree_on(self, state: str, task_id: str) -> None:
        wait_until(lambda: self.states(task_id) == (state, state), f"{state} at both servers")


@pytest.fixture(params=["auto", "here"])
def two(cluster: ServedCluster, request: pytest.FixtureRequest) -> Generator[TwoServers]:
    """Turns run on workers, and then in the servers themselves."""
    sections = {
        "a2a": {"principals": {"local": LOCAL}, "push": {"allowed_hosts": ["127.0.0.1"]}},
        "worker": {"turns": request.param, "slots": 4},
    }
    other = cluster.rig.home.with_name("other")
    cluster.configure(cluster.rig.home, **sections)
    cluster.configure(other, **sections)
    if request.param == "auto":
        cluster.rig.start_workers(1)
    with cluster.serving() as first, cluster.serving(other) as second:
        yield TwoServers(cluster, first, second)
        cluster.model.one.gate.set()
        cluster.model.two.gate.set()


def test_two_servers_on_one_database_serve_one_caller(two: TwoServers) -> None:
    first, second, model = two.first, two.second, two.cluster.model
    # Begun at one, read, listed and followed at the other, in which its conversation continues.
    held = first.send("hold one", configuration=LATER)
    assert model.one.held.wait(HANG)
    two.agree_on("WORKING", held["id"])
    assert [task["id"] for task in second.tasks()] == [held["id"]]
    address = f"{second.url}/rest/tasks/{held['id']}:subscribe"
    with httpx.stream("GET", address, headers=VERSION, timeout=HANG, verify=UNUSED_TLS) as response:
        lines = response.iter_lines()
        assert held["id"] in next(lines)
        model.one.gate.set()
        events = sse_documents("\n".join(lines))
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    said = [
        part["text"] for one in events if "artifactUpdate" in one for part in one["artifactUpdate"]["artifact"]["parts"]
    ]
    assert "".join(said).endswith("Answer to hold one")
    assert texts_of(second.task(held["id"])) == ["I will look.", "Answer to hold one"]
    assert answer_of(second.send("again", contextId=held["contextId"])) == "Answer to again"
    assert len(two.cluster.sessions()) == 1
    # Asked at one, answered at the other; then the conversation goes on at the first.
    waiting = first.send("risky")
    two.agree_on("INPUT_REQUIRED", waiting["id"])
    done = second.send("approve", taskId=waiting["id"])
    assert (state_of(done), answer_of(done)) == ("COMPLETED", "done")
    assert answer_of(first.task(waiting["id"])) == "done"
    assert answer_of(first.send("more", contextId=waiting["contextId"])) == "Answer to more"
    assert (two.cluster.rig.cwd / "ran").read_text() == "ran\n"
    two.cluster.check()


def test_the_same_message_at_two_servers_is_one_task(two: TwoServers) -> None:
    with ThreadPoolExecutor(2) as pool:
        sent = [pool.submit(one.send, "hello", messageId="m") for one in (two.first, two.second)]
        tasks = [one.result() for one in sent]
    assert tasks[0]["id"] == tasks[1]["id"] and [answer_of(task) for task in tasks] == ["Answer to hello"] * 2
    assert len(two.cluster.sessions()) == 1
    assert two.cluster.rig.query("SELECT count(*) FROM turns") == [(1,)]


def test_a_task_is_canceled_at_another_server_and_its_webhook_is_called_once(two: TwoServers) -> None:
    """The webhook was added at the other server too, while the task was at work."""
    with webhook() as hook:
        held = two.first.send("hold one", configuration=LATER)
        assert two.cluster.model.one.held.wait(HANG)
        address = f"{two.second.url}/rest/tasks/{held['id']}/pushNotificationConfigs"
        added = httpx.post(address, json={"url": hook.url}, headers=VERSION, timeout=HANG, verify=UNUSED_TLS)
        assert added.status_code == 200, added.text
        assert state_of(cancel(two.second, held["id"])) == "CANCELED"
        two.agree_on("CANCELED", held["id"])
        ended = "SELECT count(*) FROM turns WHERE state = 'interrupted'"
        wait_until(lambda: two.cluster.rig.query(ended) == [(1,)], "the end of the turn")
        # Another task with a webhook, so that a second notification about the first one would have come before it.
        told = {"taskPushNotificationConfig": {"url": hook.url}}
        assert answer_of(two.first.send("hello", configuration=told)) == "Answer to hello"
        hook.wait(4)
        assert hook.states == ["canceled", "submitted", "working", "completed"]
    two.cluster.check()


def test_the_tasks_of_a_server_that_dies_go_on_at_the_other(two: TwoServers) -> None:
    held = two.first.send("hold one", configuration=LATER)
    assert two.cluster.model.one.held.wait(HANG)
    two.first.kill()
    two.cluster.model.one.gate.set()
    assert texts_of(two.second.ended(held["id"])) == ["I will look.", "Answer to hold one"]
    assert (two.cluster.rig.cwd / "effects").read_text() == "step\n"
    two.cluster.check()


def test_the_owner_answers_for_callers_of_one_server(cluster: ServedCluster) -> None:
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
            own_postgres.start()
            wait_until(lambda: list_of(server), "the tasks after the database is back")
            assert len(list_of(server)) == 1, "a message that was refused is no task"
            wait_until(lambda: ask().status_code == 200, "an answer after the database is back")


def list_of(server: A2AProcess) -> list[Any]:
    address = f"{server.url}/rest/tasks"
    return httpx.get(address, headers=VERSION, timeout=HANG, verify=UNUSED_TLS).json().get("tasks", [])
