"""Sandboxes that are made before their command is known: each command finds what a new one would have given it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.tools.sandbox.backend import SandboxBackend
from hermes.tools.terminal import prepared_shell
from hermes.tools.terminal.child_process import ChildProcess
from support import SOURCES
from support.sandbox_rig import SandboxRig, is_made
from support.waiting import HANG, wait_until, wait_until_gone

MakeRig = Callable[..., SandboxRig]
MakePrepared = Callable[[], SandboxRig]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[ChildProcess]:
    """The shells that were started, with a command or to wait for one."""
    children: list[ChildProcess] = []

    def start(*arguments: Any, **options: Any) -> ChildProcess:
        children.append(ChildProcess(*arguments, **options))
        return children[-1]

    monkeypatch.setattr(prepared_shell, "ChildProcess", start)
    return children


@pytest.fixture
def make_prepared(make_rig: MakeRig, bubblewrap: SandboxBackend, started: list[ChildProcess]) -> MakePrepared:
    """Makes a rig whose next command has a shell that waits: in the test, as pytest sets a variable for each phase."""

    def make() -> SandboxRig:
        rig = make_rig(bubblewrap, prepares=False)
        rig.works("true")
        prepare(rig, started)
        assert len(started) == 2
        return rig

    return make


def prepare(rig: SandboxRig, started: list[ChildProcess]) -> None:
    """Prepare a shell, and wait until its sandbox is made."""
    rig.context.processes.shells.prepare()
    wait_until(lambda: is_made(started[-1].pid), "the sandbox of a shell that waits")


def test_a_command_runs_in_the_shell_that_waits(make_prepared: MakePrepared, started: list[ChildProcess]) -> None:
    rig = make_prepared()
    assert rig.works("echo ran; pwd") == f"ran\n{rig.workspace}"
    assert len(started) == 2 and started[1].exit_code() == 0


def test_nothing_is_prepared_when_no_command_ran(make_prepared: MakePrepared, started: list[ChildProcess]) -> None:
    rig = make_prepared()
    for _ in range(3):
        rig.context.processes.shells.prepare()
    assert len(started) == 2


PROBES = {
    "environment": "env | grep -v ^_= | grep -iv ^[a-z]*_proxy= | sort",
    "parameters": 'echo "$- $0 $? $# $LINENO $SHLVL $BASH_SUBSHELL"',
    "options": "shopt; set -o; umask; trap; alias; hash; declare -F; ulimit -a",
    "descriptors": "for fd in /dev/fd/*; do [ -e $fd ] && echo $fd; done; [ /dev/fd/1 -ef /dev/fd/2 ] && echo same",
    "signals": "exec grep Sig[BIC] /proc/self/status",
    "errors": "no-such-program; echo out; echo err >&2; false",
    "input": "[ /dev/fd/0 -ef /dev/null ] && echo none; cat; read -r line; echo $?",
    "lines": "cat <<'END'\n  spaces \\ and $signs\n\nEND\nf() {\n  echo in f; return 7\n}\nf\n",
    "end": "set -e; trap 'echo at the end' EXIT; (exit 9); echo never",
    "quotes": "printf '%s|' 'a  b' \"c\td\" $'e\\nf' ; echo \u00e4\u20ac",
    "left behind": "sleep 600 & echo started",
}


@pytest.mark.parametrize("probe", PROBES.values(), ids=list(PROBES))
def test_a_command_finds_its_shell_as_a_new_one_would_be(
    make_prepared: MakePrepared, started: list[ChildProcess], monkeypatch: pytest.MonkeyPatch, probe: str
) -> None:
    rig = make_prepared()
    prepared = rig.run(probe)
    assert len(started) == 2
    monkeypatch.setattr(prepared_shell, "_LONGEST", 0)
    assert prepared == rig.run(probe)


def test_a_long_command_does_not_wait(make_prepared: MakePrepared) -> None:
    rig = make_prepared()
    assert rig.works(f"echo {'x' * 5000} | wc -c") == "5001"


# -- what changed since it was prepared ------------------------------------------------------------------------------


def replaced(path: Path, content: str) -> None:
    """Write a file as careful programs do: a new one takes its name."""
    new = path.with_name("new-file")
    new.write_text(content)
    new.replace(path)


def test_a_key_that_was_replaced_since_is_hidden(make_prepared: MakePrepared, started: list[ChildProcess]) -> None:
    rig = make_prepared()
    (rig.home / ".netrc").write_text("machine first")
    assert "first" not in str(rig.run("cat ~/.netrc"))
    prepare(rig, started)
    replaced(rig.home / ".netrc", "machine second")
    assert "second" not in str(rig.run("cat ~/.netrc"))


def test_a_file_that_runs_code_and_was_replaced_since_is_read_only(
    make_prepared: MakePrepared, started: list[ChildProcess]
) -> None:
    rig = make_prepared()
    file = rig.workspace / ".envrc"
    file.write_text("first\n")
    rig.works("true")
    prepare(rig, started)
    replaced(file, "second\n")
    assert rig.run("echo third > .envrc")["exit_code"] != 0
    assert file.read_text() == "second\n"


def test_a_workspace_that_was_replaced_is_the_one_that_is_there(make_prepared: MakePrepared) -> None:
    rig = make_prepared()
    rig.workspace.rename(rig.home / "old")
    rig.workspace.mkdir()
    rig.works("echo x > made")
    assert (rig.workspace / "made").exists() and not (rig.home / "old" / "made").exists()


def test_variables_have_their_values_of_now(make_prepared: MakePrepared, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make_prepared()
    monkeypatch.setenv("COLOUR", "green")
    assert rig.works("echo $COLOUR") == "green"


def test_a_file_system_that_was_mounted_since_is_read_only(folder: Path, bubblewrap: SandboxBackend) -> None:
    """In mounts of its own, as those of the machine are shared with other tests."""
    program = (
        "import subprocess\n"
        "child = run('true')\n"
        "place = folder / 'disk'\n"
        "place.mkdir()\n"
        "table.shells.prepare()\n"
        "from support.sandbox_rig import is_made\n"
        "while not is_made(table.shells._waiting[0].child.pid): pass\n"
        "subprocess.run(['mount', '-t', 'tmpfs', 'none', place], check=True)\n"
        "run('echo x > ~/disk/file')\n"
        "print((place / 'file').exists())\n"
    )
    mounts = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    arguments = [*mounts, "sh", "-c", 'mount --make-rshared / && exec "$@"', "sh"]
    done = in_another_process(program, folder, arguments)
    assert done.stdout == "False\n", done.stderr


def test_a_shell_that_ended_meanwhile_is_not_used(make_prepared: MakePrepared, started: list[ChildProcess]) -> None:
    rig = make_prepared()
    os.killpg(started[1].pid, signal.SIGKILL)
    assert started[1].wait(HANG) is not None
    assert rig.works("echo ran") == "ran"
    assert len(started) == 3


def test_a_command_in_another_folder_gets_a_sandbox_of_its_own(
    make_prepared: MakePrepared, started: list[ChildProcess]
) -> None:
    rig = make_prepared()
    (rig.workspace / "sub").mkdir()
    assert rig.works("pwd", workdir="sub") == str(rig.workspace / "sub")
    assert len(started) == 3


# -- how many, and until when ----------------------------------------------------------------------------------------


def test_only_a_few_wait(make_rig: MakeRig, bubblewrap: SandboxBackend, started: list[ChildProcess]) -> None:
    rig = make_rig(bubblewrap, prepares=False)
    for name in "abcd":
        rig.context.cwd = rig.workspace / name
        rig.context.cwd.mkdir()
        rig.works("true")
    rig.context.processes.shells.prepare()
    assert sum(child.exit_code() is None for child in started) == 2


def test_those_that_wait_end_with_the_host(make_prepared: MakePrepared, started: list[ChildProcess]) -> None:
    rig = make_prepared()
    assert started[1].exit_code() is None
    rig.context.processes.close()
    assert started[1].exit_code() is not None


def test_a_claim_that_fails_leaves_no_effect(make_prepared: MakePrepared, started: list[ChildProcess]) -> None:
    rig = make_prepared()

    def claim() -> None:
        raise RuntimeError("the disk is full")

    rig.context.command.claim = claim
    with pytest.raises(RuntimeError, match="disk is full"):
        rig.run("touch effect")
    assert started[1].exit_code() is not None
    assert not (rig.workspace / "effect").exists()


def test_one_that_waits_ends_when_hermes_and_its_supervisor_are_killed(
    folder: Path, bubblewrap: SandboxBackend
) -> None:
    program = (
        "import os, signal\n"
        "run('true')\n"
        "table.shells.prepare()\n"
        "print(table.shells._waiting[0].child.pid, flush=True)\n"
        "os.kill(table.supervisor._pid, signal.SIGKILL)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = in_another_process(program, folder)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_until_gone(int(done.stdout))


_SETTING = """
import sys
from pathlib import Path
from hermes.base.config.schema.sections import TerminalConfig
from hermes.base.scope import Scope
from hermes.tools.files.guard import FileGuard
from hermes.tools.registry import ToolContext
from hermes.tools.sandbox.confinement import Confinements
from hermes.tools.terminal.background import ProcessTable
from hermes.tools.terminal.terminal import run_terminal

folder, table = Path(sys.argv[1]), ProcessTable()
confinements = Confinements(TerminalConfig(sandbox="workspace"), hermes_home=folder / "home")
(folder / "work").mkdir()
context = ToolContext(Scope(), folder / "work", table, FileGuard(), confinements=confinements)

def run(command):
    return run_terminal({"command": command}, context)

"""


def in_another_process(program: str, folder: Path, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program that has ``run``, ``table`` and ``folder``, its home."""
    env = {**os.environ, "PYTHONPATH": f"{SOURCES}:{SOURCES.parent / 'tests'}", "HOME": str(folder)}
    command = [*before, sys.executable, "-c", _SETTING + program, str(folder)]
    return subprocess.run(command, env=env, check=False, capture_output=True, text=True, timeout=HANG)
