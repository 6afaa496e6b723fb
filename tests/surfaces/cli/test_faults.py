"""What a person sees when the disk, the home or the journal is in a bad state: one clear line, and nothing lost."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, by_step, text, tool_call
from support import hermes_command, hermes_environment, run_hermes, write_config
from support.small_disk import small_disk
from support.waiting import wait_until


def one_error_line(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if not line.startswith(("session_id: ", "Warning: "))]
    assert len(lines) == 1 and lines[0].startswith("Error: "), stderr
    return lines[0]


def test_a_home_that_is_a_file(home: Path, workdir: Path) -> None:
    home.write_text("not a folder")
    done = run_hermes(
        *("chat", "-q", "hi", "-Q", "--provider", "ollama", "--model", "m"),
        home=home,
        cwd=workdir,
    )
    assert done.returncode == 1
    assert str(home) in one_error_line(done.stderr)
    assert home.read_text() == "not a folder"


def test_a_read_only_home(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("never")]) as provider, small_disk(home, "1m"):
        write_config(home, provider.base_url)
        subprocess.run(["mount", "-o", "remount,ro", str(home)], check=True)
        done = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
        listing = run_hermes("sessions", "list", home=home, cwd=workdir)
    assert done.returncode == 1
    assert str(home) in one_error_line(done.stderr)
    assert provider.requests == []  # nothing is asked that could not be recorded
    assert listing.returncode == 0


def test_a_full_disk_stops_the_turn_visibly_and_it_goes_on_once_there_is_room(home: Path, workdir: Path) -> None:
    filling = "echo ran >> log; cat /dev/zero > $HERMES_HOME/filler"
    script = by_step(tool_call("terminal", {"command": filling}), text("Finished when there was room."))
    with ScriptedProvider(script) as provider, small_disk(home, "2m"):
        write_config(home, provider.base_url, 'terminal: {sandbox: "off"}\n')  # it would hide the home
        stopped = run_hermes("chat", "-q", "fill it", "-Q", "--yolo", home=home, cwd=workdir)
        refused = run_hermes("chat", "-q", "x" * 50_000, "-Q", home=home, cwd=workdir)
        (home / "filler").unlink()
        resumed = run_hermes("chat", "--continue", "-Q", home=home, cwd=workdir)
    for failed in (stopped, refused):
        assert failed.returncode == 1
        assert "space" in one_error_line(failed.stderr)
    assert (resumed.returncode, resumed.stdout) == (0, "Finished when there was room.\n")
    assert (workdir / "log").read_text() == "ran\n"
    assert '"outcome":"unknown"' in provider.requests[-1].messages[-1]["content"]


@pytest.mark.parametrize("damage", [b"this is not a database at all, not even close" * 100, b""])
def test_a_corrupt_journal_is_refused_and_kept(home: Path, workdir: Path, damage: bytes) -> None:
    with ScriptedProvider([text("one"), text("two")]) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
        database = home / "state.db"
        intact = database.read_bytes()
        broken = damage or intact[:4096] + os.urandom(len(intact) - 4096)
        database.write_bytes(broken)
        done = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
        after = database.read_bytes()
    assert done.returncode == 1
    assert "damaged" in one_error_line(done.stderr)
    assert after == broken


def test_a_journal_from_a_newer_version_is_refused_and_kept(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("one")]) as provider:
        write_config(home, provider.base_url)
        run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
        with closing(sqlite3.connect(home / "state.db")) as connection:
            connection.execute("PRAGMA user_version = 999")
        done = run_hermes("chat", "-q", "hi", "-Q", home=home, cwd=workdir)
        listing = run_hermes("sessions", "list", home=home, cwd=workdir)
    for result in (done, listing):
        assert result.returncode == 1
        assert "newer version" in one_error_line(result.stderr)


def test_a_broken_configuration_is_one_line_and_the_file_stays(home: Path, workdir: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("model: [unclosed\n")
    done = run_hermes("chat", "-q", "hi", home=home, cwd=workdir)
    assert done.returncode == 1
    assert "config.yaml" in done.stderr and done.stderr.startswith("Error: ") and "Traceback" not in done.stderr
    assert (home / "config.yaml").read_text() == "model: [unclosed\n"


#: Runs a command and prints its peak memory. From a small process: a child begins with the peak of its parent.
_MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_a_gigabyte_of_output_is_bounded_in_memory_and_in_the_request(home: Path, workdir: Path) -> None:
    command = "head -c 1000000000 /dev/zero | tr '\\0' 'y'"
    script = [tool_call("terminal", {"command": command}), text("That was a lot.")]
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        done = subprocess.run(
            [sys.executable, "-c", _MEASURED, *hermes_command("chat", "-q", "go", "-Q")],
            cwd=workdir,
            env=hermes_environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    answer, peak = done.stdout.splitlines()
    assert answer == b"That was a lot."
    assert len(provider.requests[1].messages[-1]["content"]) < 60_000
    assert int(peak) < 200_000  # kilobytes


def test_a_process_group_dies_with_its_command(home: Path, workdir: Path) -> None:
    mark = f"300.{os.getpid()}"  # names the child in the list of processes
    command = f"sleep {mark} & touch started; wait"
    hermes = hermes_command("chat", "-q", "go", "-Q")
    with ScriptedProvider([tool_call("terminal", {"command": command}), text("stopped")]) as provider:
        write_config(home, provider.base_url)
        with subprocess.Popen(hermes, cwd=workdir, env=hermes_environment(home), stdout=subprocess.DEVNULL) as process:
            wait_until((workdir / "started").exists, "the start of the command")
            wait_until(lambda: _processes_of(mark), "the start of its child")
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130
    wait_until(lambda: not _processes_of(mark), "the end of the whole group")


def test_a_command_that_takes_too_long_is_stopped(home: Path, workdir: Path) -> None:
    command = {"command": "sleep 300 & wait", "timeout": 1}
    with ScriptedProvider([tool_call("terminal", command), text("timed out")]) as provider:
        write_config(home, provider.base_url)
        done = run_hermes("chat", "-q", "go", "-Q", home=home, cwd=workdir)
    assert done.stdout == "timed out\n"
    assert '"exit_code":124' in provider.requests[1].messages[-1]["content"]


def _processes_of(argument: str) -> list[str]:
    """Running processes that were started with this argument."""
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if argument.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(folder.name)
    return found


def test_two_processes_write_at_once(home: Path, workdir: Path) -> None:
    with ScriptedProvider(text("ok", chunk_delay=0.05)) as provider:
        write_config(home, provider.base_url)
        processes = [
            subprocess.Popen(
                hermes_command("chat", "-q", f"number {number}", "-Q"),
                cwd=workdir,
                env=hermes_environment(home),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for number in range(6)
        ]
        outputs = [process.communicate(timeout=60) for process in processes]
    assert [stdout for stdout, _ in outputs] == [b"ok\n"] * 6
    with closing(sqlite3.connect(home / "state.db")) as connection:
        assert connection.execute("SELECT count(*) FROM turns WHERE state = 'completed'").fetchone() == (6,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
