"""The scheduler: looks for due runs and runs each on a thread, in any number of processes of one home at once."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path

from hermes.base.config.files import open_lock, try_lock
from hermes.base.errors import HermesError
from hermes.service.schedules.delivery import AnswerDelivery, AnswerOutbox
from hermes.service.schedules.fires import DueRun, FireLedger
from hermes.service.schedules.run import STOPPED, RunReport, RunTurns, ScheduledRun, ScheduleHost, SessionTurns
from hermes.service.schedules.schedule import Schedule

log = logging.getLogger("hermes.cron")

#: The longest wait between two looks: so late are new schedules and changes of the clock noticed.
LONGEST_WAIT = 2.0
#: How long a stop waits for runs to end by themselves once they are interrupted.
SECONDS_TO_STOP = 10.0

OnReport = Callable[[RunReport], None]


class Scheduler:
    """Runs what is due. ``turns`` runs the turns, this process without it; ``clock`` is what schedules live by."""

    def __init__(
        self,
        host: ScheduleHost,
        *,
        turns: RunTurns | None = None,
        outbox: AnswerOutbox | None = None,
        on_report: OnReport = lambda _report: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._host = host
        self._turns = turns or SessionTurns(host)
        self._settings = host.config.cron
        self._clock = clock
        self._ledger = FireLedger(host.store, host.runner, self._settings, clock)
        self._delivery = AnswerDelivery(outbox, host.runtime.guard.refusal_to_write)
        self._on_report = on_report
        self._running: dict[ScheduledRun, threading.Thread] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False

    # -- the loop -----------------------------------------------------------------------------------------------

    def serve(self, stop: threading.Event) -> None:
        """Look for due runs until ``stop`` is set. A look that fails is logged, and the next one is tried."""
        with announced(self._host.home):
            while not stop.is_set():
                try:
                    self.tick()
                except HermesError as error:
                    log.error("the schedules could not be looked at: %s", error)
                except Exception:
                    log.exception("the schedules could not be looked at")
                self._wait_for_fire(stop)

    def _wait_for_fire(self, stop: threading.Event) -> None:
        """Wait for the next fire, but never long: the clock may be set, and others may add schedules."""
        seconds = LONGEST_WAIT
        with contextlib.suppress(HermesError):
            planned = self._ledger.next_fire()
            if planned is not None:
                seconds = min(max(planned - self._clock(), 0.05), LONGEST_WAIT)
        if not stop.is_set():
            self.wait(seconds)

    def wake(self) -> None:
        """Look now: something has changed, or a stop was asked for."""
        self._wake.set()

    def wait(self, seconds: float) -> None:
        """Wait until something changes here, but not longer than that."""
        self._wake.wait(seconds)
        self._wake.clear()

    def tick(self, *, only_begun: bool = False) -> list[ScheduledRun]:
        """Start what is due, as far as there is room; returns what was started.

        ``only_begun``: only what a process that died has left, and what waited for another run.
        """
        if self._stopping or not self._ledger.has_work():
            return []
        with self._lock:
            room = self._settings.max_running - len(self._running)
        return [self._start(due) for due in self._ledger.claim(room, only_begun=only_begun)]

    def version(self) -> tuple[int, float]:
        """Changes whenever a schedule is made, changed or removed."""
        return self._ledger.version()

    def fire(self, schedule: Schedule) -> ScheduledRun:
        """Start a run now, outside of the planned times."""
        return self._start(self._ledger.start_now(schedule))

    def begin(self, schedule: Schedule) -> ScheduledRun:
        """Claim a run now, for the caller's thread, which executes it."""
        return self._scheduled(self._ledger.start_now(schedule))

    def _scheduled(self, due: DueRun) -> ScheduledRun:
        return ScheduledRun(self._host, self._turns, self._ledger, self._delivery, due)

    def _start(self, due: DueRun) -> ScheduledRun:
        run = self._scheduled(due)
        thread = threading.Thread(target=self._run, args=(run,), name=f"cron-{due.schedule.id}", daemon=True)
        with self._lock:
            self._running[run] = thread
        thread.start()
        return run

    def _run(self, run: ScheduledRun) -> None:
        try:
            self._on_report(run.execute())
        except Exception:
            # The journal failed: the claim ends with this process, and the run is continued by the next.
            log.exception("the end of a scheduled run could not be recorded")
        finally:
            with self._lock:
                self._running.pop(run, None)
            self.wake()

    # -- stopping -----------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Wait for the runs that were started."""
        for thread in self._threads():
            thread.join()

    def close(self, seconds: float = SECONDS_TO_STOP) -> None:
        """Start nothing more, and interrupt what runs: the next scheduler continues it."""
        self._stopping = True
        with self._lock:
            runs = list(self._running)
        for run in runs:
            run.interrupt.cancel(STOPPED)
        give_up = time.monotonic() + seconds
        for thread in self._threads():
            thread.join(max(0.0, give_up - time.monotonic()))
        self.wake()

    def _threads(self) -> list[threading.Thread]:
        with self._lock:
            return list(self._running.values())


# -- presence -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def announced(home: Path) -> Generator[None]:
    """Show other processes that a scheduler runs, while the block does: a shared lock on a file of the home."""
    file = open_lock(home / "cron.lock")
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        os.close(file)


def is_running(home: Path) -> bool:
    """Whether a scheduler of this home runs, in any process."""
    if not (home / "cron.lock").exists():
        return False
    file = open_lock(home / "cron.lock")
    try:
        return not try_lock(file)
    finally:
        os.close(file)
