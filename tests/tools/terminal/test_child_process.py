"""Commands that register themselves with the supervisor: the shell they run in is as it would be without that."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hermes.tools.sandbox.confinement import Confinement
from hermes.tools.terminal import child_process
from hermes.tools.terminal.child_process import ChildProcess, can_hold
from hermes.tools.terminal.supervisor import ProcessSupervisor, registration_script
from support import SOURCES
from support.waiting import HANG, wait_until_gone

BASH = shutil.which("bash") or ""
pytestmark = pytest.mark.skipif(not BASH, reason="bash is not installed")
needs_script = pytest.mark.skipif(registration_script() < 0, reason="this system has no files in memory")


@pytest.fixture
def supervisor() -> Generator[ProcessSupervisor]:
    supervisor = ProcessSupervisor()
    yield supervisor
    supervisor.close()


def run(
    command: str, cwd: Path, env: Mapping[str, str], supervisor: ProcessSupervisor, *, is_held: bool = False
) -> str:
    held_for = (lambda: None) if is_held else None
    child = ChildProcess([BASH, "-c", command], cwd=str(cwd), env=env, supervisor=supervisor, held_for=held_for)
    child.release()
    output = b""
    while piece := child.read(HANG):
        output += piece
    assert piece is not None, f"no end of the output of {child.pid}; it is open in {users_of(child.output_descriptor)}"
    assert child.wait(HANG) is not None
    child.close()
    return output.decode()


def users_of(pipe: int) -> list[str]:
    """The processes that have a pipe open, with their commands."""
    name = Path(f"/proc/self/fd/{pipe}").readlink()
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(one.readlink() == name for one in (process / "fd").iterdir()):
                found.append(f"{process.name} {(process / 'cmdline').read_bytes()!r}")
    return found


def plain(command: str, cwd: Path, env: Mapping[str, str]) -> str:
    return subprocess.run(
        [BASH, "-c", command],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        check=False,
    ).stdout


PROBES = {
    "environment": "env | sort",
    "parameters": 'echo "$_ $- $0 $? $# $LINENO $SHLVL $BASH_SUBSHELL <$BASH_EXECUTION_STRING>"',
    "options": "shopt; set -o; umask; trap; alias; hash; declare -F; ulimit -a",
    "variables": "compgen -v | grep -v PIPESTATUS | sort",
    "descriptors": "for fd in /dev/fd/*; do [ -e $fd ] && echo $fd; done; [ /dev/fd/1 -ef /dev/fd/2 ] && echo same",
    # Without a fork: bash blocks signals during one.
    "signals": "while read -r line; do case $line in Sig[BIC]*) echo $line;; esac; done < /proc/$$/status; "
    "exec grep Sig[BIC] /proc/self/status",
    "errors": "no-such-program; echo out; echo err >&2; if",
    "input": "[ /dev/fd/0 -ef /dev/null ] && echo none; cat; read -r line; echo $?",
}


@pytest.mark.parametrize("is_held", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("probe", PROBES.values(), ids=list(PROBES))
def test_a_command_finds_its_shell_as_it_is_without_a_supervisor(
    tmp_path: Path, supervisor: ProcessSupervisor, probe: str, is_held: bool
) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C"}
    assert run(probe, tmp_path, env, supervisor, is_held=is_held) == plain(probe, tmp_path, env) != ""


def test_bash_registers_itself_without_another_shell(
    tmp_path: Path, supervisor: ProcessSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    if child_process.registration_script() < 0:
        pytest.skip("this system has no files in memory")
    monkeypatch.setattr(child_process, "_REGISTERED", "exit 3")
    env = {"PATH": os.environ["PATH"]}
    assert run("echo ran", tmp_path, env, supervisor) == "ran\n"


@pytest.mark.parametrize("variable", ["BASH_ENV", "POSIXLY_CORRECT", "SHELLOPTS", "BASH_FUNC_which%%"])
def test_what_the_user_sets_for_bash_has_its_effect(
    tmp_path: Path, supervisor: ProcessSupervisor, variable: str
) -> None:
    (tmp_path / "mine.sh").write_text("mine=read\n")
    values = {"BASH_ENV": str(tmp_path / "mine.sh"), "POSIXLY_CORRECT": "1", "SHELLOPTS": "posix"}
    value = values.get(variable, "() { echo mine; }")
    env = {"PATH": os.environ["PATH"], variable: value}
    probe = 'echo "<$mine>" $BASH_ENV; set -o | grep posix; which; echo err >&2'
    assert run(probe, tmp_path, env, supervisor) == plain(probe, tmp_path, env) != ""


class ClaimFailed(Exception):
    pass


class Witness(ProcessSupervisor):
    """Takes the registration of a shell, which is the last thing it does before it is held."""

    def __init__(self) -> None:
        super().__init__()
        self._reading, self._writing = os.pipe()

    @contextmanager
    def registration(self) -> Generator[int]:
        yield self._writing

    def wait(self) -> None:
        assert os.read(self._reading, 100).startswith(b"+ ")

    def close(self) -> None:
        super().close()
        os.close(self._reading)
        os.close(self._writing)


@pytest.fixture
def witness() -> Generator[Witness]:
    witness = Witness()
    yield witness
    witness.close()


@needs_script
@pytest.mark.parametrize("ending", ["the claim fails", "it is stopped", "it is closed"])
def test_a_command_that_is_held_and_not_released_does_nothing(tmp_path: Path, witness: Witness, ending: str) -> None:
    def claim() -> None:
        raise ClaimFailed

    env = {"PATH": os.environ["PATH"]}
    command = [BASH, "-c", "touch effect"]
    child = ChildProcess(command, cwd=str(tmp_path), env=env, supervisor=witness, held_for=claim)
    try:
        witness.wait()
        if ending == "the claim fails":
            with pytest.raises(ClaimFailed):
                child.release()
        elif ending == "it is closed":
            child.close()
            assert child.wait(HANG) == 125
    finally:
        child.stop(grace=0)
        child.close()
    assert not (tmp_path / "effect").exists()


@needs_script
def test_what_a_command_is_held_for_is_done_once_and_before_it_runs(tmp_path: Path, witness: Witness) -> None:
    seen: list[bool] = []

    def claim() -> None:
        witness.wait()
        seen.append((tmp_path / "effect").exists())

    env = {"PATH": os.environ["PATH"]}
    command = [BASH, "-c", "touch effect"]
    child = ChildProcess(command, cwd=str(tmp_path), env=env, supervisor=witness, held_for=claim)
    child.release()
    child.release()
    assert child.wait(HANG) == 0
    child.close()
    assert seen == [False] and (tmp_path / "effect").exists()


@needs_script
def test_a_held_command_ends_without_an_effect_when_hermes_is_killed(tmp_path: Path) -> None:
    """Nothing but the end of its input reaches it: the supervisor is killed, too."""
    program = (
        "import os, signal\n"
        "from hermes.tools.terminal.child_process import ChildProcess\n"
        "from hermes.tools.terminal.supervisor import ProcessSupervisor\n"
        "supervisor = ProcessSupervisor()\n"
        "def die():\n"
        "    print(child.pid, flush=True)\n"
        "    os.kill(supervisor._pid, signal.SIGKILL)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"command, env = [{BASH!r}, '-c', 'touch effect'], {{'PATH': os.environ['PATH']}}\n"
        "child = ChildProcess(command, cwd='.', env=env, supervisor=supervisor, held_for=die)\n"
        "child.release()\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCES)}
    killed = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, check=False, timeout=HANG, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    wait_until_gone(int(killed.stdout))
    assert not (tmp_path / "effect").exists()


@pytest.mark.parametrize("variable", ["BASH_ENV", "SHELLOPTS", "TMOUT", "BASH_FUNC_read%%"])
def test_a_shell_that_would_not_wait_is_not_held(tmp_path: Path, variable: str) -> None:
    env = {"PATH": os.environ["PATH"], variable: "1"}
    assert not can_hold("true", Confinement(env))
    assert not can_hold("true", Confinement({"PATH": os.environ["PATH"]}), pty=True)
    assert not can_hold("true" * 100_000, Confinement({"PATH": os.environ["PATH"]}))


@pytest.mark.parametrize("name", ["trap", "echo", "read", "exit", "exec", "unset"])
def test_functions_of_the_user_do_not_keep_a_command_from_running(
    tmp_path: Path, supervisor: ProcessSupervisor, name: str
) -> None:
    env = {"PATH": os.environ["PATH"], f"BASH_FUNC_{name}%%": "() { exit 1; }"}
    assert run("printf out; printf err >&2", tmp_path, env, supervisor) == "outerr"
