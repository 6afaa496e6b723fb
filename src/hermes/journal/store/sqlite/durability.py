"""Durability: brings committed transactions to the disk, for those who wait or on a thread beside them.

SQLite writes a commit to its write-ahead log and leaves the sync to this module (``synchronous=NORMAL``). What is
written survives the death of the process at once; what is synced survives a power failure too. The log has a valid
beginning at any time, so what is lost is never more than its end.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

#: The system call; not every system has the cheaper one.
sync_file = getattr(os, "fdatasync", os.fsync)


class LogSync:
    """The syncs of one write-ahead log. Thread-safe: threads that wait at the same time share a sync."""

    def __init__(self, log: Path) -> None:
        self._log = log
        # Of its own: SQLite holds no lock on this file that closing a descriptor could drop.
        self._file = -1
        #: How many commits are in the log. Counted by one thread at a time.
        self.written = 0
        self._synced = 0
        self._syncing = threading.Lock()
        self._failure: OSError | None = None
        self._wanted = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_closed = False

    def wait(self) -> None:
        """Return once everything that was written before the call is on disk. Raises ``OSError`` when it cannot be."""
        wanted = self.written
        if self._synced >= wanted and self._failure is None:
            return
        with self._syncing:
            if self._failure is None and self._synced < wanted:
                self._sync()
            if self._failure is not None:
                raise self._failure

    def start(self) -> None:
        """Sync what is written on another thread; ``wait`` then waits for that."""
        if self._thread is None:
            with self._starting:
                if self._thread is None and not self._is_closed:
                    thread = threading.Thread(target=self._serve, name="hermes-journal-sync", daemon=True)
                    thread.start()
                    self._thread = thread
        self._wanted.set()

    def close(self) -> None:
        """Sync what is written and end the thread."""
        with self._starting:  # no thread is started afterwards, nor is one half started
            self._is_closed = True
        self._wanted.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self.wait()
        finally:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _sync(self) -> None:
        target = self.written
        try:
            if self._file < 0:
                self._file = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
            sync_file(self._file)
        except OSError as error:
            # For good: the system may have dropped what it could not write, and report success the next time.
            self._failure = error
        else:
            self._synced = target

    def _serve(self) -> None:
        while not self._is_closed:
            self._wanted.wait()
            self._wanted.clear()
            with self._syncing:
                if self._failure is None and self._synced < self.written:
                    self._sync()
