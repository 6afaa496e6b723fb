"""Examines a plugin in a process of its own, so that one which ends or blocks its process is reported too."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

import msgspec

from hermes.testing.conformance.guarded_calls import Limits
from hermes.testing.conformance.host import manifest_of
from hermes.testing.conformance.rules import Finding, Findings, Place, Report

#: Seconds beyond a call's own deadline after which a silent process is taken to be stuck.
_SILENCE = 10.0
#: Seconds in which the last lines of a process that has ended must arrive.
_DRAIN = 0.5


class Task(msgspec.Struct):
    """What the examining process is asked to do."""

    path: str
    #: Where it writes its lines.
    channel: int
    settings: dict[str, Any]
    deadline: float
    slow: float
    budget: float
    run_tools: bool


class Call(msgspec.Struct, frozen=True):
    """A call of the plugin's code."""

    label: str
    file: str
    line: int = 1
    site: str = ""
    schedule: str = ""


class Line(msgspec.Struct, omit_defaults=True):
    """One line of the examining process: a call it is about to make, a finding, or the end."""

    call: Call | None = None
    finding: Finding | None = None
    report: Report | None = None


def check_plugin_in_process(
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    run_tools: bool = True,
    on_finding: Callable[[Finding], None] | None = None,
) -> Report:
    """Examine the plugin in ``folder`` like ``check_plugin``, with a home and a working directory of its own."""
    limits = limits or Limits()
    with TemporaryDirectory(prefix="hermes-conformance-", ignore_cleanup_errors=True) as place:
        reading, writing = os.pipe()
        task = Task(
            str(folder.resolve()), writing, dict(settings or {}), limits.deadline, limits.slow, limits.budget, run_tools
        )
        output = Path(place, "output.log")
        try:
            process = _start(task, Path(place), output)
        finally:
            os.close(writing)
        try:
            return _Supervision(process, reading, folder, limits, on_finding).run(output)
        finally:
            _end(process)


def _start(task: Task, place: Path, output: Path) -> subprocess.Popen[bytes]:
    home, work = place / "home", place / "work"
    home.mkdir()
    work.mkdir()
    sources = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (sources, os.environ.get("PYTHONPATH", ""))))
    with output.open("wb") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "hermes.testing.conformance.process", msgspec.json.encode(task).decode()],
            cwd=work,
            env={**os.environ, "HERMES_HOME": str(home), "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            pass_fds=(task.channel,),
            # A group of its own: what the plugin starts ends with it.
            start_new_session=True,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


class _Supervision:
    """Follows the lines of one examining process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reading: int,
        folder: Path,
        limits: Limits,
        on_finding: Callable[[Finding], None] | None,
    ) -> None:
        self._process = process
        self._limits = limits
        self._key = manifest_of(folder).key
        self._findings = Findings(on_finding)
        self._at = Call("loading the plugin", str(folder / "__init__.py"))
        self._calls = 0
        self._started = monotonic()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(reading,), name="hermes-conformance-lines", daemon=True).start()

    def run(self, output: Path) -> Report:
        """Wait for the report; when none comes, make one that says where the process was."""
        report = self._follow()
        if report is not None:
            return report
        at = self._at
        place = Place(at.file, at.line)
        code = self._process.poll()
        if code is None:
            text = f"{at.label} blocks the whole process; nothing was heard of it for {self._patience:g} s"
            self._findings.add("hangs", text, place, site=at.site, schedule=at.schedule)
        else:
            text = f"the process ended ({_ending(code)}) while it was at {at.label}{_last_words(output)}"
            self._findings.add("crash", text, place, site=at.site, schedule=at.schedule)
        return Report(self._key, self._findings.list(), self._calls, round(monotonic() - self._started, 3))

    @property
    def _patience(self) -> float:
        return self._limits.deadline + _SILENCE

    def _follow(self) -> Report | None:
        heard = monotonic()
        ended = 0.0
        while monotonic() - heard < self._patience:
            try:
                line = self._lines.get(timeout=0.05)
            except queue.Empty:
                if self._process.poll() is not None:
                    ended = ended or monotonic()
                    if monotonic() - ended > _DRAIN:
                        return None
                continue
            if line is None:
                self._wait_for_end()
                return None
            heard = monotonic()
            report = self._take(line)
            if report is not None:
                return report
        return None

    def _wait_for_end(self) -> None:
        """The channel is closed: the process is ending, unless the plugin closed it."""
        try:
            self._process.wait(_DRAIN)
        except subprocess.TimeoutExpired:
            at = self._at
            label = f"{at.label} (which closed a file descriptor that is not its own)"
            self._at = Call(label, at.file, at.line, at.site, at.schedule)

    def _take(self, line: bytes) -> Report | None:
        try:
            told = msgspec.json.decode(line, type=Line)
        except msgspec.DecodeError:
            return None
        if told.call is not None:
            self._calls += 1
            self._at = told.call
        if told.finding is not None:
            found = told.finding
            self._findings.add(
                found.rule,
                found.text,
                found.place,
                site=found.site,
                schedule=found.schedule,
                severity=found.severity,
            )
        return told.report

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(None)


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _last_words(output: Path) -> str:
    """The last line the process printed, without secrets."""
    from hermes.sanitize import redact_text

    lines = output.read_bytes()[-4000:].decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; it last printed {redact_text(last)[:200]!r}" if last else ""


def main() -> None:
    """The examining process: does its task, says so line by line and ends whatever threads are left."""
    from hermes.testing.conformance.check import check_plugin

    task = msgspec.json.decode(sys.argv[1], type=Task)
    os.set_inheritable(task.channel, False)
    lock = threading.Lock()

    def say(line: Line) -> None:
        data = msgspec.json.encode(line) + b"\n"
        with lock:
            while data:
                data = data[os.write(task.channel, data) :]

    report = check_plugin(
        Path(task.path),
        settings=task.settings,
        cwd=Path.cwd(),
        limits=Limits(task.deadline, task.slow, task.budget),
        run_tools=task.run_tools,
        on_finding=lambda finding: say(Line(finding=finding)),
        on_call=lambda subject, schedule: say(
            Line(call=Call(subject.label, subject.place.file, subject.place.line, subject.site, schedule))
        ),
    )
    say(Line(report=report))
    # Threads of the plugin that never end would hold up an ordinary exit.
    os._exit(0)


if __name__ == "__main__":
    main()
