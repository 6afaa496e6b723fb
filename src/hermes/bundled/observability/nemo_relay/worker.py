"""A thread that does what the turn need not wait for, one thing after the other."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger("hermes.plugins.nemo_relay")

#: As much may wait; whoever has more to do waits for that.
CAPACITY = 10_000
_PATIENCE_SECONDS = 5.0
_MOST_WARNINGS = 20

Work = Callable[[], None]
_Queue = queue.SimpleQueue[Work | None]


class Worker:
    """Starts its thread with the first work. ``finish`` ends the thread, and the next work starts another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queue: _Queue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._said: set[str] = set()

    def put(self, work: Work) -> None:
        """Have something done. Whoever finds too much waiting waits for it, but not for a runtime that is stuck."""
        with self._lock:
            if self._thread is None:
                name = "hermes-nemo-relay-worker"
                self._thread = threading.Thread(target=self._serve, args=(self._queue,), name=name, daemon=True)
                self._thread.start()
            waiting = self._queue
            waiting.put(work)
        if waiting.qsize() > CAPACITY and not _drained(waiting):
            self._warn("the exporter does not keep up")

    def wait(self, seconds: float) -> bool:
        """Wait until everything that was put so far is done; False when that takes longer."""
        with self._lock:
            if self._thread is None:
                return True
            done = threading.Event()
            self._queue.put(done.set)
        return done.wait(seconds)

    def finish(self, seconds: float) -> None:
        """The same, and end the thread."""
        with self._lock:
            thread, waiting = self._thread, self._queue
            self._thread, self._queue = None, queue.SimpleQueue()
        if thread is not None:
            waiting.put(None)
            thread.join(seconds)

    def forget(self) -> None:
        """Drop everything in a process that was forked: the thread stayed behind."""
        self._lock = threading.Lock()
        self._queue = queue.SimpleQueue()
        self._thread = None

    def _serve(self, waiting: _Queue) -> None:
        while (work := waiting.get()) is not None:
            try:
                work()
            except Exception as error:
                self._warn(f"an event was not exported: {type(error).__name__}: {error}")

    def _warn(self, text: str) -> None:
        """Say something once."""
        if text not in self._said and len(self._said) < _MOST_WARNINGS:
            self._said.add(text)
            log.warning("%s", text)


def _drained(waiting: _Queue) -> bool:
    """Whether everything in a queue is done within seconds."""
    done = threading.Event()
    waiting.put(done.set)
    return done.wait(_PATIENCE_SECONDS)
