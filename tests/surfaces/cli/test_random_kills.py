"""More than two hundred random kills over all surfaces: nothing is lost, nothing runs twice, and every record is whole.

A kill comes at a random crash point (before and after every commit and effect), or at a random moment.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes.journal.sessions import Sessions
from hermes.journal.store.sqlite.store import SqliteStore
from hermes.testing import RecordedRequest, ScriptedProvider, by_step, text, tool_call, tool_calls
from hermes.testing.scripted.script import ReplyLike
from hermes.trace.verify.session import verify
from support import hermes_environment, write_config
from support.a2a_rig import UNUSED_TLS, VERSION, wire_message
from support.forked_hermes import ForkedHermes
from support.repl_terminal import ReplTerminal
from support.waiting import HANG, wait_until, wait_until_gone

pytestmark = pytest.mark.slow

SETTINGS = """\
a2a:
  max_requests_per_minute: 0
  principals:
    local: {workspace: ".", scopes: [send, read, cancel, approve]}
terminal: {sandbox: "off"}
"""


def append(token: str, more: str = "") -> dict[str, Any]:
    """The arguments of a command that leaves a token where it runs."""
    return {"command": f"echo {token} >> effects{more}"}


def steps_of(kind: str, name: str) -> list[ReplyLike]:
    """The replies of the model to a message of that kind."""
    done = text(f"done {name}")
    match kind:
        case "mixed":
            write = tool_call("write_file", {"path": f"{name}.txt", "content": name})
            calls = [tool_call("terminal", append(f"{name}-1")), write, tool_call("terminal", append(f"{name}-2"))]
            return [tool_call("read_file", {"path": "a.txt"}), *calls, done]
        case "parallel":
            reads = tool_calls([("read_file", {"path": "a.txt"}), ("search_files", {"pattern": "alpha"})])
            writes = [(f"{name}-{number}", "x") for number in range(3)]
            files = tool_calls([("write_file", {"path": path, "content": text_}) for path, text_ in writes])
            return [
                reads,
                files,
                tool_calls([("terminal", append(f"{name}-{number}")) for number in range(2)]),
                done,
            ]
        case "delegate":
            tasks = [{"goal": f"child {name}-{number}"} for number in range(2)]
            return [tool_call("delegate_task", {"tasks": tasks}), tool_call("terminal", append(f"{name}-own")), done]
        case "child":
            return [tool_call("terminal", append(f"{name}-1")), done]
        case "background":
            command = {"command": f"echo $$ >> pids; echo {name}-1 >> effects; exec sleep 300", "background": True}
            return [tool_call("terminal", command), tool_call("terminal", append(f"{name}-2")), done]
        case _:
            return [tool_call("terminal", append(f"{name}-1", " && rm -rf ./no-such-folder")), done]


def script(request: RecordedRequest) -> ReplyLike:
    found = re.search(r"(mixed|parallel|delegate|child|background|approval) ([\w-]+)", request.last_user_text)
    assert found is not None, request.last_user_text
    return by_step(*steps_of(found[1], found[2]))(request)


class Run:
    """A ``hermes`` process whose output goes to a file."""

    def __init__(self, process: ForkedHermes, output: Path, errors: Path) -> None:
        self.process, self._output, self._errors = process, output, errors

    @property
    def stdout(self) -> str:
        return self._output.read_text()

    @property
    def stderr(self) -> str:
        return self._errors.read_text()

    @property
    def code(self) -> int:
        return self.process.wait()

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Runner:
    """Starts ``hermes`` processes on one home."""

    def __init__(self, home: Path, workdir: Path, scratch: Path) -> None:
        self._home, self._workdir, self._scratch = home, workdir, scratch
        self._count = 0

    def start(self, *arguments: str, crash_at: int = 0) -> Run:
        self._count += 1
        env = hermes_environment(self._home, {"HERMES_CRASH_AT": str(crash_at)})
        output, errors = (self._scratch / f"{name}-{self._count}" for name in ("output", "errors"))
        with Path(os.devnull).open() as nothing, output.open("wb") as out, errors.open("wb") as err:
            streams = (nothing.fileno(), out.fileno(), err.fileno())
            return Run(ForkedHermes(arguments, self._workdir, env, streams), output, errors)

    def run(self, *arguments: str, crash_at: int = 0, kill_after: float | None = None) -> Run:
        """Run a process to its end; after some seconds it is killed if wanted."""
        run = self.start(*arguments, crash_at=crash_at)
        try:
            run.process.wait(kill_after)
        except subprocess.TimeoutExpired:
            run.process.kill()
        return run


class Storm:
    """A home on which processes are killed, and the checks of what they left."""

    def __init__(self, home: Path, workdir: Path, tmp_path: Path) -> None:
        self.home, self.workdir = home, workdir
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        self.chance = random.Random(seed)
        self.hermes = Runner(home, workdir, tmp_path)
        (workdir / "a.txt").write_text("alpha\n")
        (workdir / "effects").touch()

    def session_of(self, message: str) -> str | None:
        """The id of the session that a message started; None when it was never accepted."""
        with closing(sqlite3.connect(self.home / "state.db")) as connection, suppress(sqlite3.OperationalError):
            query = "SELECT id FROM sessions WHERE parent_id IS NULL AND title = ?"
            found = connection.execute(query, (message,)).fetchone()
            return None if found is None else found[0]
        return None

    def check(self, message: str, answer: str) -> None:
        """The conversation that the message started ended with the answer, with nothing lost or done twice."""
        session_id = self.session_of(message)
        assert session_id is not None
        name = message.split()[1]
        with closing(SqliteStore(self.home / "state.db")) as store:
            sessions = Sessions(store)
            turn = sessions.last_turn(session_id)
            assert turn is not None and (turn.state, turn.answer) == ("completed", answer), turn
            query = "SELECT id FROM sessions WHERE id = :id OR parent_id = :id"
            family = store.read(lambda connection: connection.execute(query, {"id": session_id}).fetchall())
            effects = Counter((self.workdir / "effects").read_text().split())
            recorded: set[str] = set()
            for (member,) in family:
                assert verify(sessions.export(member)) == [], member
                for event in sessions.events(member):
                    if event["kind"] == "step_done" and event["key"].startswith("tool:"):
                        recorded |= self._check_call(event["body"], effects)
        done = {token for token in effects if token.startswith(f"{name}-")}
        assert done <= recorded, "a command ran of which the conversation knows nothing"

    def _check_call(self, call: dict[str, Any], effects: Counter[str]) -> set[str]:
        tokens = re.findall(r"echo ([\w-]+) >> effects", str(call["args"].get("command", "")))
        for token in tokens:
            # A process in the background ends with the one that started it, perhaps before its first line.
            is_unknown = '"outcome":"unknown"' in call["result"] or "Background process started" in call["result"]
            assert effects[token] == 1 or (is_unknown and effects[token] == 0), (token, effects[token], call)
        return set(tokens)

    def check_file(self) -> None:
        with closing(sqlite3.connect(self.home / "state.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize(
    ("kind", "points", "kills"),
    [("mixed", 44, 52), ("parallel", 40, 38), ("delegate", 60, 38), ("background", 34, 32)],
)
def test_one_shot_runs(home: Path, workdir: Path, tmp_path: Path, kind: str, points: int, kills: int) -> None:
    storm = Storm(home, workdir, tmp_path)
    with ScriptedProvider(script) as provider:
        hermes = storm.hermes
        write_config(home, provider.base_url, SETTINGS)
        killed = number = 0
        seconds = 0.1
        while killed < kills:
            number += 1
            message, answer = f"{kind} {kind}{number}", f"done {kind}{number}"
            started = time.monotonic()
            if number == 1 or storm.chance.random() < 0.6:
                run = hermes.run("chat", "-Q", "-q", message, crash_at=storm.chance.randint(1, points) * (number > 1))
            else:
                run = hermes.run("chat", "-Q", "-q", message, kill_after=storm.chance.uniform(0, seconds))
            if not run.was_killed:
                assert (run.code, run.stdout) == (0, f"{answer}\n"), run.stderr
                seconds = time.monotonic() - started
            killed += run.was_killed
            session_id = storm.session_of(message)
            if session_id is None:
                continue  # never accepted
            if run.was_killed and number % 4 == 0:
                again = hermes.run("chat", "-Q", "--resume", session_id, crash_at=storm.chance.randint(1, 8))
                killed += again.was_killed
            resumed = hermes.run("chat", "-Q", "--resume", session_id)
            assert (resumed.code, resumed.stdout) == (0, f"{answer}\n"), resumed.stderr
            storm.check(message, answer)
        if kind == "background":
            wait_until_gone(*map(int, (workdir / "pids").read_text().split()))
    storm.check_file()


def test_a_program_that_embeds_hermes(home: Path, workdir: Path, tmp_path: Path) -> None:
    storm = Storm(home, workdir, tmp_path)
    with ScriptedProvider(script) as provider:
        hermes = storm.hermes
        write_config(home, provider.base_url, SETTINGS)
        killed = number = 0
        while killed < 20:
            number += 1
            message, answer = f"mixed embedded{number}", f"done embedded{number}"
            run = hermes.run("python-api", "run", message, crash_at=storm.chance.randint(1, 44))
            assert run.was_killed or (run.code, run.stdout) == (0, f"{answer}\n"), run.stderr
            killed += run.was_killed
            session_id = storm.session_of(message)
            if session_id is None:
                continue  # never accepted
            finished = hermes.run("python-api", "finish", session_id)
            assert finished.code == 0 and finished.stdout.strip() in ("", answer), finished.stderr
            storm.check(message, answer)
    storm.check_file()


def test_the_prompt(home: Path, workdir: Path, tmp_path: Path) -> None:
    storm = Storm(home, workdir, tmp_path)
    with ScriptedProvider(script) as provider:
        hermes = storm.hermes
        write_config(home, provider.base_url, SETTINGS)
        for number in range(12):
            message, answer = f"mixed prompt{number}", f"done prompt{number}"
            with ReplTerminal(home, workdir) as terminal:
                terminal.send(message)
                wait_until(lambda message=message: storm.session_of(message), "the message on disk")
                time.sleep(storm.chance.uniform(0, 0.3))
            session_id = storm.session_of(message)
            assert session_id is not None
            with closing(SqliteStore(home / "state.db")) as store:
                turn = Sessions(store).last_turn(session_id)
            if number % 4 == 0 and turn is not None and turn.state == "running":
                with ReplTerminal(home, workdir, "--resume", session_id, ready="Continue it?") as terminal:
                    terminal.send("y")
                    terminal.wait_for(answer)
                    terminal.wait_until_idle()
                    terminal.send("/quit")
                    assert terminal.end() == 0
            else:
                assert hermes.run("chat", "-Q", "--resume", session_id).stdout == f"{answer}\n"
            storm.check(message, answer)
    storm.check_file()


def test_the_a2a_server(home: Path, workdir: Path, tmp_path: Path) -> None:
    storm = Storm(home, workdir, tmp_path)
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url, SETTINGS)
        number = killed = 0
        while killed < 28:
            number += 1
            names = [f"mixed task{number}", f"delegate team{number}", f"approval deed{number}"]
            server = _Served(storm.hermes, crash_at=storm.chance.randint(1, 120) if number % 2 else 0)
            with suppress(httpx.HTTPError, KeyError):  # it may be dead by now
                for name in names:
                    server.send(name)
                wait_until(server.waiting_task, "the question")
                server.send("approve", taskId=server.waiting_task())
            time.sleep(storm.chance.uniform(0, 0.3) * (number % 2 == 0))
            server.kill()
            killed += 1
            if number % 3 == 0:
                again = _Served(storm.hermes, crash_at=storm.chance.randint(1, 30))
                time.sleep(storm.chance.uniform(0, 0.1))
                again.kill()
                killed += 1
            _Served(storm.hermes).finish_all()
            for name in names:
                if storm.session_of(name) is not None:
                    storm.check(name, f"done {name.split()[1]}")
    storm.check_file()


#: The states of a task that has not ended.
_OPEN_STATES = ("SUBMITTED", "WORKING", "INPUT_REQUIRED")


class _Served:
    """A server of the storm."""

    def __init__(self, hermes: Runner, crash_at: int = 0) -> None:
        self._run = run = hermes.start("a2a", "serve", crash_at=crash_at)
        wait_until(lambda: run.stdout.endswith("\n") or run.process.poll() is not None, "its address, or its end")
        assert run.stdout or crash_at, run.stderr
        self._url = f"{run.stdout.strip()}/rest"
        self._client = httpx.Client(headers=VERSION, timeout=HANG, verify=UNUSED_TLS)

    def send(self, words: str, **more: str) -> None:
        document = {**wire_message(words, **more), "configuration": {"returnImmediately": True}}
        self._call("POST", "/message:send", document)

    def waiting_task(self) -> str:
        return next((task["id"] for task in self._tasks() if _state(task) == "INPUT_REQUIRED"), "")

    def finish_all(self) -> None:
        """Wait until every task has ended, with the answer to those that ask."""
        try:
            for task_id in [task["id"] for task in self._tasks() if _state(task) != "COMPLETED"]:
                wait_until(lambda task_id=task_id: self.state(task_id) not in ("SUBMITTED", "WORKING"), "its end")
                if self.state(task_id) == "INPUT_REQUIRED":
                    self.send("approve", taskId=task_id)
                # A question whose answer was stored before the kill is still shown until its turn continues.
                wait_until(lambda task_id=task_id: self.state(task_id) not in _OPEN_STATES, "its end")
                ended = self._call("GET", f"/tasks/{task_id}")
                assert _state(ended) == "COMPLETED", ended
        finally:
            self.kill()

    def _tasks(self) -> list[dict[str, Any]]:
        return self._call("GET", "/tasks?pageSize=100").get("tasks", [])

    def state(self, task_id: str) -> str:
        return _state(self._call("GET", f"/tasks/{task_id}"))

    def kill(self) -> None:
        self._client.close()
        self._run.process.kill()

    def _call(self, method: str, path: str, document: Any = None) -> dict[str, Any]:
        return self._client.request(method, self._url + path, json=document).json()


def _state(task: dict[str, Any]) -> str:
    return task["status"]["state"].removeprefix("TASK_STATE_")
