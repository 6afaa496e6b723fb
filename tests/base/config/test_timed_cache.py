"""What servers told is believed for ten minutes, and a file that cannot be used is as good as none."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from hermes.base.config.files import LIFETIME, TimedCache


def test_an_answer_is_believed_for_a_while(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    TimedCache(home, "x.json", int).keep("old", 1)
    cache = TimedCache(home, "x.json", int)
    assert (cache.get("old"), cache.get("other")) == (1, None)
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME + 1)
    assert cache.get("old") is None
    cache.keep("new", 2)
    assert cache.get("new") == 2
    assert '"old"' not in (home / "cache" / "x.json").read_text()


@pytest.mark.parametrize("text", ["{ not json", '{"a": {"at": 1.0, "tokens": 2}}', "[]"])
def test_a_damaged_file_is_as_good_as_none(text: str, home: Path) -> None:
    cache = TimedCache(home, "x.json", int)
    cache.keep("a", 1)
    (home / "cache" / "x.json").write_text(text)
    assert cache.get("a") is None
    cache.keep("a", 2)
    assert cache.get("a") == 2
