"""Commands end with Hermes, also when it is killed: real processes, ``kill -9`` and what is left afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, by_step, hanging, tool_call
from hermes.tools.terminal.child_process import ChildProcess
from hermes.tools.terminal.supervisor import ProcessSupervisor
from support import SOURCES, is_running, start_hermes, write_config
from support.waiting import HANG, read_pid, wait_until, wait_until_gone


def start_sleep() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "300"], start_new_session=True)


def supervising_process(supervisor: ProcessSupervisor) -> int:
    return supervisor._pid  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_a_command_and_its_children_end_with_a_hermes_that_is_killed(
    home: Path, workdir: Path, background: bool
) -> None:
    command = "sleep 300 & echo $! > child.pid; echo $$ > shell.pid; wait"
    script = by_step(tool_call("terminal", {"command": command, "background": background}), hanging())
    with ScriptedProvider(script) as provider:
        write_config(home, provider.base_url)
        process = start_hermes("chat", "-Q", "-q", "go", home=home, cwd=workdir)
        pids = [read_pid(workdir / name) for name in ("child.pid", "shell.pid")]
        if background:
            provider.wait_for_request(2)
        process.kill()
        process.wait(HANG)
        for pid in pids:
            wait_until_gone(pid)


def test_a_hook_command_ends_with_a_hermes_that_is_killed(home: Path, workdir: Path) -> None:
    (workdir / "hook.sh").write_text("cat > /dev/null; sleep 300 & echo $! > child.pid; echo $$ > shell.pid; wait\n")
    with ScriptedProvider("never asked") as provider:
        write_config(home, provider.base_url)
        hook = "{command: sh hook.sh, timeout: 300, sandbox: false}"
        with (home / "config.yaml").open("a") as config:
            config.write(f"hooks_auto_accept: true\nhooks:\n  pre_llm_call:\n    - {hook}\n")
        process = start_hermes("chat", "-Q", "-q", "go", home=home, cwd=workdir)
        pids = [read_pid(workdir / name) for name in ("child.pid", "shell.pid")]
        process.kill()
        process.wait(HANG)
        for pid in pids:
            wait_until_gone(pid)


def test_a_search_ends_with_a_hermes_that_is_killed(home: Path, workdir: Path, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "rg").write_text(f"#!/bin/sh\necho $$ > {workdir}/rg.pid\nexec /bin/sleep 300\n")
    (programs / "rg").chmod(0o755)
    with ScriptedProvider(by_step(tool_call("search_files", {"pattern": "x"}), hanging())) as provider:
        write_config(home, provider.base_url)
        # One of the system would be started first, and none in a temporary folder.
        path = {"PATH": str(programs), "TMPDIR": str(home)}
        process = start_hermes("chat", "-Q", "-q", "go", home=home, cwd=workdir, env=path)
        pid = read_pid(workdir / "rg.pid")
        process.kill()
        process.wait(HANG)
        wait_until_gone(pid)


def test_groups_are_killed_when_the_process_that_registered_them_is_gone() -> None:
    program = (
        "import subprocess, sys, time\n"
        "from hermes.tools.terminal.supervisor import ProcessSupervisor\n"
        "supervisor, started = ProcessSupervisor(), []\n"
        "for _ in range(5):\n"
        "    started.append(subprocess.Popen(['sleep', '300'], start_new_session=True, stdout=2).pid)\n"
        "    supervisor.add(started[-1])\n"
        "for pid in (started[0], started[2]):\n"
        "    supervisor.remove(pid)\n"
        "print(*started, flush=True)\n"
        "time.sleep(300)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCES)}
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    )
    assert owner.stdout is not None
    pids = [int(word) for word in owner.stdout.readline().split()]
    try:
        owner.kill()
        owner.communicate()
        for pid in (pids[1], pids[3], pids[4]):
            wait_until_gone(pid)
        assert is_running(pids[0]) and is_running(pids[2]), "they were no longer registered"
    finally:
        for pid in (pids[0], pids[2]):
            os.kill(pid, signal.SIGKILL)


def test_it_starts_again_when_it_was_killed_itself() -> None:
    supervisor = ProcessSupervisor()
    first, second = start_sleep(), start_sleep()
    try:
        supervisor.add(first.pid)
        killed = supervising_process(supervisor)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not is_running(killed), "the end of the supervising process")
        supervisor.add(second.pid)
        assert supervising_process(supervisor) not in (0, killed)
        supervisor.close()
        assert first.wait(HANG) == second.wait(HANG) == -signal.SIGKILL
    finally:
        first.kill()
        second.kill()


def test_it_starts_with_the_first_command_and_ends_with_the_host() -> None:
    supervisor = ProcessSupervisor()
    supervisor.remove(1)
    supervisor.close()
    assert supervising_process(supervisor) == 0
    sleeping = start_sleep()
    try:
        supervisor.add(sleeping.pid)
        pid = supervising_process(supervisor)
        assert is_running(pid)
        supervisor.remove(sleeping.pid)
        supervisor.close()
        wait_until(lambda: not is_running(pid), "the end of the supervising process")
        assert sleeping.poll() is None
    finally:
        sleeping.kill()
        sleeping.wait(HANG)


_HAS_BASH = os.access("/bin/bash", os.X_OK)
_STARTS = {
    "pipes": "ChildProcess(command, cwd='.', supervisor=supervisor)",
    "bash": "ChildProcess(\n"
    "    ['/bin/bash', *command[1:]], cwd='.', env={'PATH': os.environ['PATH']}, supervisor=supervisor\n)",
    "terminal": "ChildProcess(command, cwd='.', pty=True, supervisor=supervisor)",
    "hook command": "run_command(\n"
    "    command, stdin=b'', cwd='.', confinement=Confinement(os.environ), timeout=300, supervisor=supervisor\n)",
}


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(start, id=name, marks=[pytest.mark.skipif(name == "bash" and not _HAS_BASH, reason="no bash")])
        for name, start in _STARTS.items()
    ],
)
def test_a_hermes_killed_between_start_and_registration_leaves_no_process(tmp_path: Path, start: str) -> None:
    program = (
        "import os, signal\n"
        "from hermes.plugins.shell_hooks.process import run_command\n"
        "from hermes.tools.sandbox.confinement import Confinement\n"
        "from hermes.tools.terminal.child_process import ChildProcess\n"
        "from hermes.tools.terminal.supervisor import ProcessSupervisor\n"
        "ProcessSupervisor.add = lambda self, group: os.kill(os.getpid(), signal.SIGKILL)\n"
        "command, supervisor = ['sh', '-c', 'echo $$ > shell.pid; exec sleep 300'], ProcessSupervisor()\n"
        f"os.chdir({str(tmp_path)!r})\n"
        f"{start}\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(SOURCES)}, check=False, timeout=HANG
    )
    assert killed.returncode == -signal.SIGKILL
    # It may have been killed before its first line, which is fine, too.
    found = tmp_path / "shell.pid"
    wait_until(lambda: not _works_in(tmp_path), "the end of every process in the folder")
    assert not found.exists() or not is_running(int(found.read_text() or 0))


def _works_in(folder: Path) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").samefile(folder):
                return True
    return False


@pytest.mark.parametrize(("shell", "pty"), [("sh", False), ("bash", False), ("sh", True)])
def test_a_command_runs_when_its_supervisor_was_killed(tmp_path: Path, shell: str, pty: bool) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    supervisor = ProcessSupervisor()
    supervisor.start()
    killed = supervising_process(supervisor)
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: not is_running(killed), "the end of the supervising process")
    command = [shell, "-c", "echo out; echo err >&2; yes | head -n 1"]
    env = {"PATH": os.environ["PATH"]}
    child = ChildProcess(command, cwd=str(tmp_path), env=env, pty=pty, supervisor=supervisor)
    output = b""
    while piece := child.read(HANG):
        output += piece
    assert child.wait(HANG) == 0
    assert output.split() == [b"out", b"err", b"y"]
    child.close()
    supervisor.close()
