"""Checks a plugin in a separate process, so that one which ends or blocks its process is reported too."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

import msgspec

from hermes.testing.conformance.clock import Stopwatch
from hermes.testing.conformance.guarded_calls import ConformanceLimits
from hermes.testing.conformance.rules import ConformanceFinding, ConformanceReport, FindingCollector, SourceLine
from hermes.testing.harness import manifest_of
from hermes.tools.terminal.supervisor import ProcessSupervisor

#: Seconds beyond a call's own deadline after which a silent process is taken to be stuck.
_SILENCE = 10.0


class CheckRequest(msgspec.Struct):
    """Order for the checking process, passed on its command line."""

    path: str
    #: Where it writes its lines.
    channel: int
    settings: dict[str, Any]
    limits: ConformanceLimits
    run_tools: bool


class CallNotice(msgspec.Struct, frozen=True):
    """A call of the plugin's code."""

    label: str
    file: str
    line: int = 1
    site: str = ""
    schedule: str = ""


class ProgressLine(msgspec.Struct, omit_defaults=True):
    """One line from the checking process: a call it is about to make, a finding, or the report."""

    call: CallNotice | None = None
    finding: ConformanceFinding | None = None
    report: ConformanceReport | None = None


def check_plugin_in_process(
    folder: Path,
    *,
    settings: Mapping[str, Any] | None = None,
    limits: ConformanceLimits | None = None,
    run_tools: bool = True,
    on_finding: Callable[[ConformanceFinding], None] | None = None,
) -> ConformanceReport:
    """Examine the plugin in ``folder`` like ``check_plugin``, with a home and a working directory of its own."""
    limits = limits or ConformanceLimits()
    with TemporaryDirectory(prefix="hermes-conformance-", ignore_cleanup_errors=True) as temporary:
        reading, writing = os.pipe()
        task = CheckRequest(str(folder.resolve()), writing, dict(settings or {}), limits, run_tools)
        output = Path(temporary, "output.log")
        try:
            process = _start(task, Path(temporary), output)
        finally:
            os.close(writing)
        supervisor = ProcessSupervisor()
        try:
            supervisor.add(process.pid)  # it must not outlive a run of tests that is killed
            return _Supervisor(process, reading, folder, limits, on_finding).run(output)
        finally:
            _end(process)
            supervisor.remove(process.pid)
            supervisor.close()


def _start(task: CheckRequest, folder: Path, output: Path) -> subprocess.Popen[bytes]:
    home, work = folder / "home", folder / "work"
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


class _Supervisor:
    """Follows the lines of one checking process."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reading: int,
        folder: Path,
        limits: ConformanceLimits,
        on_finding: Callable[[ConformanceFinding], None] | None,
    ) -> None:
        self._process = process
        self._channel = reading
        self._limits = limits
        self._key = manifest_of(folder).key
        self._findings = FindingCollector(on_finding)
        self._at = CallNotice("loading the plugin", str(folder / "__init__.py"))
        self._calls = 0
        self._started = monotonic()
        self._unread = b""
        #: The channel was closed before the report.
        self._cut_off = False
        os.set_blocking(reading, False)

    def run(self, output: Path) -> ConformanceReport:
        """Wait for the report; when none comes, make one that says where the process was."""
        try:
            report = self._follow()
        finally:
            self._close_channel()
        if report is not None:
            return report
        at = self._at
        source = SourceLine(at.file, at.line)
        code = self._process.poll()
        if code is None:
            label = f"{at.label} (which closed a file descriptor that is not its own)" if self._cut_off else at.label
            text = f"{label} blocks the whole process; it reported nothing for {self._silence:g} s"
            self._findings.add("hangs", text, source, site=at.site, schedule=at.schedule)
        else:
            text = f"the process ended ({_ending(code)}) while it was at {at.label}{_last_words(output)}"
            self._findings.add("crash", text, source, site=at.site, schedule=at.schedule)
        return ConformanceReport(self._key, self._findings.list(), self._calls, round(monotonic() - self._started, 3))

    @property
    def _silence(self) -> float:
        """Seconds without a line after which the process is taken to be stuck."""
        return self._limits.deadline + _SILENCE

    def _follow(self) -> ConformanceReport | None:
        """Read lines until the report, the end of the process, or a silence that is too long."""
        silent = Stopwatch(self._process.pid)
        while not silent.reached(self._silence):
            ended = self._process.poll() is not None
            # Asked before reading: all that a process wrote before it ended can be read now, without waiting.
            lines = self._read_lines(0.0 if ended else 0.05)
            for line in lines:
                report = self._take(line)
                if report is not None:
                    return report
            if ended:
                return None
            if lines:
                silent.restart()
        return None

    def _read_lines(self, seconds: float) -> list[bytes]:
        """The lines that have arrived, or that arrive within some seconds."""
        if self._channel < 0:
            sleep(seconds)
            return []
        select.select([self._channel], [], [], seconds)
        while True:
            try:
                data = os.read(self._channel, 65536)
            except BlockingIOError:
                break
            if not data:  # closed: the process is ending, unless the plugin closed it
                self._cut_off = True
                self._close_channel()
                break
            self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        return lines

    def _close_channel(self) -> None:
        if self._channel >= 0:
            os.close(self._channel)
        self._channel = -1

    def _take(self, line: bytes) -> ConformanceReport | None:
        try:
            told = msgspec.json.decode(line, type=ProgressLine)
        except msgspec.DecodeError:
            return None
        if told.call is not None:
            self._calls += 1
            self._at = told.call
        if told.finding is not None:
            self._findings.take(told.finding)
        return told.report


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _last_words(output: Path) -> str:
    """The last line the process printed, without secrets."""
    from hermes.base.sanitize import redact_text

    lines = output.read_bytes()[-4000:].decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; it last printed {redact_text(last)[:200]!r}" if last else ""


def main() -> None:
    """The checking process: does its task, reports line by line and ends whatever threads remain."""
    from hermes.testing.conformance.check import check_plugin

    task = msgspec.json.decode(sys.argv[1], type=CheckRequest)
    os.set_inheritable(task.channel, False)
    lock = threading.Lock()

    def say(line: ProgressLine) -> None:
        data = msgspec.json.encode(line) + b"\n"
        with lock:
            while data:
                data = data[os.write(task.channel, data) :]

    report = check_plugin(
        Path(task.path),
        settings=task.settings,
        cwd=Path.cwd(),
        limits=task.limits,
        run_tools=task.run_tools,
        on_finding=lambda finding: say(ProgressLine(finding=finding)),
        on_call=lambda subject, schedule: say(
            ProgressLine(call=CallNotice(subject.label, *subject.source, subject.site, schedule))
        ),
    )
    say(ProgressLine(report=report))
    # Threads of the plugin that never end would hold up an ordinary exit.
    os._exit(0)


if __name__ == "__main__":
    main()
