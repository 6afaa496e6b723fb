"""The place a bench works in: a private home with a configuration, notes to read, and the scripted server."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from .measure import BenchFailed, Child, run_child
from .server import Plan, answer_text, note_name

PROJECT = Path(__file__).parents[2]
NOTES = 1000

_CONFIG = """\
# What a user has after setting up an endpoint.
model:
  provider: custom
  default: bench
  base_url: {base_url}
  api_key: bench-key
  # Room for every step that is counted: none of them pays for a summary.
  context_length: 1000000
toolsets: [terminal, file]
agent:
  max_turns: 250
terminal:
  sandbox: "{sandbox}"
  network: {network}
approvals:
  mode: manual
"""
_ENTRY = "import sys; from hermes.surfaces.cli.main import main; sys.exit(main())"
_FLOOR = "import sys; sys.path.insert(0, {folder!r}); import floor; floor.main()"
#: What children inherit. Everything else of the caller's environment could change what is measured.
_KEPT = ("HOME", "LANG", "LC_ALL", "PATH", "SHELL", "TMPDIR")


class Report(msgspec.Struct):
    """What the server noted: (arrived, answered) per request in nanoseconds, most connections, last request body."""

    marks: list[tuple[int, int]]
    peak: int
    body: str

    def gaps(self) -> list[float]:
        """Seconds between the end of one answer and the complete arrival of the next request."""
        sent_and_next = zip(self.marks[:-1], self.marks[1:], strict=True)
        return [(following[0] - previous[1]) / 1e9 for previous, following in sent_and_next]


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where the bench runs, and how to run both sides there."""

    folder: Path
    #: Of the scripted server, without a path.
    address: str
    #: Overrides how often each row repeats its measurement.
    repeat: int | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def configure(self, sandbox: str = "off", network: str = '"on"') -> None:
        """Write the configuration. Most rows measure without a sandbox."""
        text = _CONFIG.format(base_url=self.base_url, sandbox=sandbox, network=network)
        (self.home / "config.yaml").write_text(text, encoding="utf-8")

    def environment(self) -> dict[str, str]:
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        env["HERMES_HOME"] = str(self.home)
        source = source_path()
        return {**env, "PYTHONPATH": source} if source else env

    def hermes(self, *arguments: str) -> Child:
        """Run the ``hermes`` command."""
        return run_child([*hermes_command(), *arguments], env=self.environment(), cwd=self.notes)

    def chat(self, plan: Plan, *options: str) -> Child:
        """One conversation through ``hermes chat``, checked."""
        return self._checked(self.hermes("chat", "--quiet", *options, "--query", plan.query()), plan)

    def floor(self, plan: Plan) -> Child:
        """The same conversation through the floor, checked."""
        program = _FLOOR.format(folder=str(Path(__file__).parent))
        engine = "msgspec" if plan.rounds else "json"
        command = [sys.executable, "-c", program, self.base_url, plan.query(), engine]
        return self._checked(run_child(command, env=self.environment(), cwd=self.notes), plan)

    def python(self, *arguments: str) -> Child:
        """Run the interpreter, in the same circumstances as both sides."""
        return run_child([sys.executable, *arguments], env=self.environment(), cwd=self.notes)

    def report(self) -> Report:
        """What the server noted since it was asked last."""
        host, _, port = self.address.removeprefix("http://").partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request("GET", "/report")
            return msgspec.json.decode(connection.getresponse().read(), type=Report)
        finally:
            connection.close()

    def _checked(self, child: Child, plan: Plan) -> Child:
        expected = expected_answer(self.notes, plan)
        if child.stdout.strip() != expected:
            raise BenchFailed(f"expected the answer {expected!r}, got {child.stdout!r}")
        return child


def expected_answer(notes: Path, plan: Plan) -> str:
    """The right answer shows that the note which was read last reached the model."""
    if not plan.rounds:
        return answer_text("nothing")
    last = plan.first + plan.rounds * plan.calls - 1
    return answer_text((notes / note_name(last)).read_text(encoding="utf-8").split()[0])


def hermes_command() -> list[str]:
    """The installed command, or the same entry point when the project is not installed."""
    script = Path(sys.executable).with_name("hermes")
    return [str(script)] if script.exists() else [sys.executable, "-c", _ENTRY]


def source_path() -> str:
    """What children need on their path: nothing when the project is installed beside the interpreter."""
    return "" if Path(sys.executable).with_name("hermes").exists() else str(PROJECT / "src")


@contextmanager
def open_workspace(repeat: int | None = None) -> Generator[Workspace]:
    """A workspace in a temporary folder, with the server running; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name, _serving() as address:
        workspace = Workspace(Path(name), address, repeat)
        workspace.home.mkdir()
        workspace.configure()
        workspace.notes.mkdir()
        for number in range(NOTES):
            (workspace.notes / note_name(number)).write_text(_note(number), encoding="utf-8")
        yield workspace


def _note(number: int) -> str:
    """About a kilobyte in twenty lines; its first word is found nowhere else."""
    lines = [f"{line:02}: what note {number} says here." for line in range(1, 20)]
    return f"token-{number * 2654435761 % 2**32:08x}\n" + "\n".join(f"{line:<52}" for line in lines) + "\n"


@contextmanager
def _serving() -> Generator[str]:
    command = [sys.executable, "-m", "tests.bench.server"]
    pipe = subprocess.PIPE
    # Leaving the block closes its stdin, which ends the server.
    with subprocess.Popen(command, cwd=PROJECT, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        if not address:
            raise BenchFailed("the scripted server did not start")
        yield address
