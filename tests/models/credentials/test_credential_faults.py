"""Several processes, a process killed while it writes, a disk that is full or read-only: nothing is lost."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hermes.base.errors import ConfigError, ProviderError
from hermes.models.credentials.pool import CredentialPool
from hermes.models.credentials.store import AuthFile, add_key
from hermes.models.endpoint import Endpoint
from support import SOURCES
from support.small_disk import small_disk

LAB = Endpoint("http://127.0.0.1:9/v1", "m", "lab")

ADDING = """
import sys
from pathlib import Path
from hermes.models.credentials.store import AuthFile
from hermes.models.credentials.store import add_key

file, name = AuthFile(Path(sys.argv[1])), sys.argv[2]
for number in range(int(sys.argv[3])):
    add_key(file, "lab", f"sk-{name}-{number}-0123456789", f"{name}-{number}")
    print(number, flush=True)
"""


def adding(home: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ADDING, str(home), name, str(count)],
        env={"PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE,
        text=True,
    )


def labels(home: Path) -> set[str]:
    file = AuthFile(home)
    found = {one.label for one in file.credentials("lab")}
    assert file.notices == []
    return found


def test_two_processes_at_once_lose_nothing(home: Path) -> None:
    processes = [adding(home, name, 20) for name in ("a", "b")]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert labels(home) == {f"{name}-{number}" for name in ("a", "b") for number in range(20)}


def test_a_process_killed_while_it_writes_leaves_a_whole_file(home: Path) -> None:
    """Killed at many moments: what was said to be stored is stored, and the next writer goes on."""
    for round_ in range(6):
        process = adding(home, f"r{round_}", 10_000)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.random() * 0.02)
        process.kill()
        said = [0, *(int(line) for line in process.stdout.read().splitlines())]
        process.stdout.close()
        process.wait()
        found = labels(home)
        assert {f"r{round_}-{number}" for number in said} <= found
    add_key(AuthFile(home), "lab", "sk-last-0123456789", "last")
    assert "last" in labels(home)
    assert list(home.glob(".auth.json.*.tmp")) == []


def test_a_full_disk_keeps_what_was_there(home: Path) -> None:
    with small_disk(home, "64k"):
        file = AuthFile(home)
        add_key(file, "lab", "sk-first-0123456789", "first")
        before = file.path.read_bytes()
        with (home / "filler").open("wb") as filler, pytest.raises(OSError):
            while True:
                os.write(filler.fileno(), b"\0" * 4096)
        with pytest.raises(ConfigError, match=r"auth\.json: cannot be written: No space left on device; the file is"):
            add_key(file, "lab", "sk-second-0123456789", "second")
        assert file.path.read_bytes() == before
        assert sorted(path.name for path in home.iterdir()) == [".config.lock", "auth.json", "filler"]
        pool = CredentialPool(file)
        lent = pool.take(LAB)
        assert lent is not None and lent.api_key == "sk-first-0123456789"
        pool.report(lent, ProviderError("no", reason="rate_limit", status_code=429))
        (home / "filler").unlink()
        pool.close()
        assert file.credentials("lab")[0].error_code == 429


def test_a_damaged_file_on_a_full_disk_is_not_overwritten(home: Path) -> None:
    with small_disk(home, "64k"):
        file = AuthFile(home)
        file.path.write_bytes(b"{" + b"x" * 8192)
        (home / ".config.lock").touch()
        with (home / "filler").open("wb") as filler, pytest.raises(OSError):
            while True:
                os.write(filler.fileno(), b"\0" * 4096)
        assert file.credentials("lab") == []
        assert "it could not be copied" in file.notices[0]
        with pytest.raises(ConfigError, match=r"auth\.json\.corrupt: cannot be written: No space left on device"):
            add_key(file, "lab", "sk-second-0123456789")
        assert file.path.read_bytes() == b"{" + b"x" * 8192
        assert not (home / "auth.json.corrupt").exists()


def test_a_read_only_home_is_read_and_says_so_when_written(home: Path) -> None:
    with small_disk(home, "64k"):
        add_key(AuthFile(home), "lab", "sk-first-0123456789", "first")
        subprocess.run(["mount", "-o", "remount,ro", str(home)], check=True)
        file = AuthFile(home)
        with pytest.raises(ConfigError, match="cannot be written: Read-only file system"):
            add_key(file, "lab", "sk-second-0123456789", "second")
        pool = CredentialPool(file)
        lent = pool.take(LAB)
        assert lent is not None
        pool.report(lent, None)
        pool.close()
        assert [one.label for one in file.credentials("lab")] == ["first"]
