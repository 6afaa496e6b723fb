"""Programs that Hermes starts cannot read its memory: tried as an ordinary user, for whom the kernel decides."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support import SOURCES

#: Everything is imported before the rights are given up: the interpreter may lie where only its owner can read. Giving
#: them up hides the memory by itself, so it is opened again first, as that of a process started by an ordinary user is.
_PROGRAM = """
import ctypes, os, select, signal, subprocess, sys
from pathlib import Path
from hermes.base.config.schema.sections import TerminalConfig
from hermes.base.scope import Scope
from hermes.tools.sandbox.confinement import Confinements
from hermes.tools.terminal.child_process import start_command

if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    assert ctypes.CDLL(None).prctl(4, 1, 0, 0, 0) == 0
without = TerminalConfig(sandbox="off")
confinement = Confinements(without, hides_memory=sys.argv[1] == "hidden").of_command(Scope(), Path("/"))
own = f"/proc/{os.getpid()}"
child = start_command(f"cat {own}/environ; head -c 1 {own}/mem", "/", confinement)
output = b""
while (data := child.read(1)) != b"":
    output += data or b""
child.wait(60)
child.close()
print(output.decode("utf-8", "replace"))
print("own descriptor:", os.path.realpath(f"/proc/self/fd/{os.open('/', os.O_RDONLY)}"))
"""


def run_program(argument: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, argument],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCES), "PLANTED_TOKEN": "planted-in-memory"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
def test_a_command_cannot_read_the_environment_and_memory_of_hermes() -> None:
    assert "planted-in-memory" in run_program("open")
    hidden = run_program("hidden")
    assert "planted-in-memory" not in hidden
    assert hidden.count("Permission denied") == 2
    assert "own descriptor: /" in hidden
