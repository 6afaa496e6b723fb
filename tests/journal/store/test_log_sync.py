"""Syncs of the write-ahead log on a thread of their own."""

from __future__ import annotations

import threading
from pathlib import Path

from hermes.journal.store.sqlite.durability import LogSync


def test_however_many_ask_at_once_there_is_one_thread_and_closing_ends_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x")
    before = _sync_threads()
    for _ in range(20):
        sync = LogSync(log)
        sync.written += 1
        threads = [*(threading.Thread(target=sync.start) for _ in range(6)), threading.Thread(target=sync.close)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert _sync_threads() <= before


def _sync_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "hermes-journal-sync"}
