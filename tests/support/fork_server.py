"""Many short ``hermes`` processes without the start of an interpreter for each: a process that forks them.

It imports everything once and forks for each request, a JSON line on stdin; the answer is a JSON line on stdout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from support import SOURCES, hermes_environment


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended, and what it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL


class ForkServer:
    """Starts ``hermes`` processes on one home. Use it as a context manager."""

    def __init__(self, home: Path, cwd: Path, scratch: Path) -> None:
        self._scratch = scratch
        self._count = 0
        path = os.pathsep.join((str(SOURCES), str(Path(__file__).parents[1])))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=cwd,
            env={**hermes_environment(home), "PYTHONPATH": path},
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def start(self, *arguments: str, crash_at: int = 0) -> tuple[int, Path]:
        """Start a process: its id, and the file that has what it prints."""
        self._count += 1
        output = self._scratch / f"output-{self._count}"
        answer = self._ask({"argv": arguments, "crash_at": crash_at, "output": str(output)})
        return answer["pid"], output

    def wait(self, pid: int, output: Path, *, kill_after: float | None = None) -> Ended:
        """Wait for the end of a process, which is killed after some seconds if wanted."""
        code = self._ask({"wait": pid, "kill_after": kill_after})["code"]
        return Ended(code, _text(output), _text(output.with_suffix(".err")))

    def run(self, *arguments: str, crash_at: int = 0, kill_after: float | None = None) -> Ended:
        """Run a process to its end."""
        return self.wait(*self.start(*arguments, crash_at=crash_at), kill_after=kill_after)

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def _text(path: Path) -> str:
    """What a process printed; one that was killed at once has not even opened the file."""
    return path.read_text() if path.exists() else ""


def main() -> None:
    """The process that forks."""

    running: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = {"code": _wait(request["wait"], request["kill_after"])}
            running.discard(request["wait"])
        else:
            answer = {"pid": os.fork() or _become_hermes(request)}
            running.add(answer["pid"])
        print(json.dumps(answer), flush=True)
    for pid in running:  # the tests ended, perhaps by a kill
        os.kill(pid, signal.SIGKILL)


def _wait(pid: int, kill_after: float | None) -> int:
    if kill_after is not None:
        deadline = time.monotonic() + kill_after
        while time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.001)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _become_hermes(request: dict[str, Any]) -> int:
    """Be a ``hermes`` process, and never return."""
    import hermes.journal.crash as crash
    from hermes.cli.main import main as run

    code = 70
    try:
        crash._target = request["crash_at"]  # pyright: ignore[reportPrivateUsage]
        output = Path(request["output"])
        for number, path in ((1, output), (2, output.with_suffix(".err"))):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = (_use_python_api if request["argv"][0] == "python-api" else run)(request["argv"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _use_python_api(argv: list[str]) -> int:
    """A program that embeds Hermes: ``python-api run MESSAGE`` or ``python-api finish SESSION``."""
    import hermes

    with hermes.Agent() as agent:
        if argv[1] == "run":
            print(agent.session().run(argv[2]).answer)
        else:
            result = agent.session(argv[2]).finish()
            print("" if result is None else result.answer)
    return 0


if __name__ == "__main__":
    main()
