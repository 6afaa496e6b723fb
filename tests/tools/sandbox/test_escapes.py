"""Ways out of the sandbox: real attempts on canaries, with every limit of bubblewrap and with each of them left out."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.tools.sandbox import backend as backends
from hermes.tools.sandbox import bubblewrap as bubblewrap_module
from hermes.tools.sandbox.backend import SandboxBackend
from hermes.tools.sandbox.escapes import open_ways
from support.ordinary_user import as_ordinary_user
from support.sandbox_rig import SandboxRig
from support.waiting import wait_until

IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="only the superuser has rights to lose")


@pytest.fixture
def rig(make_rig: Any, bubblewrap: SandboxBackend) -> SandboxRig:
    return make_rig(bubblewrap)


def runs(mark: str) -> bool:
    """Whether a process on this machine has the mark in its command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "cmdline").read_bytes():
                return True
        except OSError:
            continue
    return False


def test_no_way_leads_out(bubblewrap: SandboxBackend) -> None:
    assert bubblewrap.blocks_namespaces
    assert open_ways(bubblewrap) == []


@needs_root
def test_no_way_leads_out_for_an_ordinary_user(bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    # The interpreter of the tests may lie in a home folder that others cannot enter.
    if not Path("/usr/bin/python3").exists():
        pytest.skip("the system has no Python of its own")
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")

    def ways() -> list[str]:
        found = backends.probe().backend
        assert found is not None
        return [found.name, *open_ways(found)]

    assert as_ordinary_user(ways) == ["bubblewrap"]


def _without(*left_out: str) -> Any:
    """The command line without these arguments, which stand side by side in it."""
    made = bubblewrap_module.bubblewrap_arguments

    def arguments(*args: Any, **options: Any) -> list[str]:
        line = made(*args, **options)
        at = next(at for at in range(len(line)) if tuple(line[at : at + len(left_out)]) == left_out)
        return line[:at] + line[at + len(left_out) :]

    return arguments


@pytest.mark.parametrize(
    ("left_out", "way"),
    [
        pytest.param(("--cap-drop", "ALL"), "it has rights of the superuser", marks=needs_root),
        pytest.param(("--remount-ro", "/proc"), "settings of the kernel can be changed", marks=needs_root),
        pytest.param(("--unshare-pid",), "a process outside was ended", marks=needs_root),
        (("--disable-userns",), "user namespaces can be made"),
    ],
    ids=str,
)
def test_a_limit_that_is_missing_is_noticed(
    bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch, left_out: tuple[str, ...], way: str
) -> None:
    backend = bubblewrap
    if left_out == ("--unshare-pid",):
        # Without a process namespace the command is not its first process, and Landlock alone would stop the signal.
        backend = SandboxBackend("bubblewrap", bubblewrap.program, blocks_namespaces=True)
        made = _without("--unshare-pid", "--as-pid-1")
    else:
        made = _without(*left_out)
    monkeypatch.setattr(bubblewrap_module, "bubblewrap_arguments", made)
    assert way in open_ways(backend)


@needs_root
def test_without_any_of_them_hidden_folders_are_uncovered(
    bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap_module, "bubblewrap_arguments", _without("--cap-drop", "ALL"))
    ways = open_ways(SandboxBackend("bubblewrap", bubblewrap.program))
    assert "a hidden folder was uncovered" in ways
    assert "a folder outside of the workspace was changed" in ways


def test_sockets_and_orphans_are_noticed(bubblewrap: SandboxBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap_module, "bubblewrap_arguments", _without("--as-pid-1"))
    monkeypatch.setattr("hermes.tools.sandbox.escapes._END_MS", 200)
    ways = open_ways(SandboxBackend("bubblewrap", bubblewrap.program, blocks_namespaces=True))
    assert ways == ["abstract sockets of the machine can be reached", "a process outlived its command"]


def test_what_cannot_be_tried_is_not_called_full(bubblewrap: SandboxBackend) -> None:
    (way,) = open_ways(SandboxBackend("bubblewrap", "/bin/false"))
    assert way.startswith("it could not be tried out")


# -- commands of the terminal tool ------------------------------------------------------------------------------------


def test_a_command_has_no_rights_and_no_descriptors(rig: SandboxRig) -> None:
    status = dict(line.split(":", 1) for line in rig.works("cat /proc/self/status").splitlines())
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"].strip() == "1"
    assert rig.works("ls /proc/self/fd").split() == ["0", "1", "2", "3"]
    assert rig.run("umount ~/.ssh && cat ~/.ssh/id_ed25519")["exit_code"] != 0
    assert rig.run(": >> /proc/sys/kernel/core_pattern")["exit_code"] != 0
    assert rig.run(": < /dev/tty")["exit_code"] != 0, "it has no terminal into which it could type"


@pytest.mark.parametrize("principal", ["", "bob"])
@pytest.mark.parametrize(
    "command",
    [
        "setsid sh -c 'sleep {} & wait' >/dev/null 2>&1 &",
        "(setsid sleep {} &) ; echo done",
        "nohup sleep {} >/dev/null 2>&1 & disown",
        "python3 -c \"import os; os.fork() or (os.setsid(), os.fork() or os.execvp('sleep', ['sleep', '{}']))\"",
    ],
)
def test_nothing_outlives_its_command(make_rig: Any, bubblewrap: SandboxBackend, command: str, principal: str) -> None:
    rig: SandboxRig = make_rig(bubblewrap, principal=principal)
    seconds = f"98{os.getpid()}"
    rig.run(command.format(seconds))
    assert not runs(seconds)


def test_a_background_process_that_was_asked_for_lives_on(rig: SandboxRig) -> None:
    """Also when the thread that started it has ended, until it is ended; then it may tidy up."""
    seconds = f"97{os.getpid()}"
    script = f"trap 'echo tidy > tidied; exit 0' TERM; sleep {seconds} & echo ready > ready; wait"
    started: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: started.append(rig.run(script, background=True)))
    thread.start()
    thread.join()
    wait_until(lambda: (rig.workspace / "ready").exists(), "the process")
    rig.works("true")
    assert runs(seconds)
    rig.call("process", action="kill", session_id=started[0]["session_id"])
    assert (rig.workspace / "tidied").read_text() == "tidy\n"
    wait_until(lambda: not runs(seconds), "its child to end with it")


def test_a_background_process_ends_with_hermes(rig: SandboxRig) -> None:
    seconds = f"96{os.getpid()}"
    rig.run(f"setsid sleep {seconds} & wait", background=True)
    wait_until(lambda: runs(seconds), "the process")
    rig.context.processes.supervisor.close()
    wait_until(lambda: not runs(seconds), "the end of the process")


# -- plugins ----------------------------------------------------------------------------------------------------------


def test_a_plugin_that_breaks_subprocess_does_not_open_the_sandbox(
    bubblewrap: SandboxBackend, make_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, *_args: object, **_options: object) -> None:
            raise OSError("a plugin was here")

    def fails(*_args: object, **_options: object) -> object:
        raise OSError("a plugin was here")

    monkeypatch.setattr(subprocess, "Popen", Broken)
    monkeypatch.setattr(subprocess, "run", fails)
    assert backends.probe().backend == bubblewrap
    rig: SandboxRig = make_rig(backends.probe().backend)
    result = rig.run("echo x > made")
    assert "a plugin was here" in str(result)
    assert not (rig.workspace / "made").exists()


def test_one_that_replaces_it_gets_the_sandboxed_command_line(
    bubblewrap: SandboxBackend, make_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Sequence[str]] = []
    started = subprocess.Popen

    class Watched(started):  # pyright: ignore[reportMissingTypeArgument, reportUntypedBaseClass]
        def __init__(self, arguments: Sequence[str], **options: Any) -> None:
            seen.append(arguments)
            super().__init__(arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    rig: SandboxRig = make_rig(backends.probe().backend)
    assert rig.works("echo x") == "x"
    assert bubblewrap.program in seen[-1]
