"""Parsers in a process of their own: real processes that reach their limits, are stopped, or look around."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes.base.errors import Interrupted
from hermes.base.scope import Interrupt
from hermes.tools.terminal.parser_process import run_parser


def run(folder: Path, program: str, data: bytes = b"", *arguments: str, interrupt: Interrupt | None = None) -> bytes:
    file = folder / "parser.py"
    file.write_text(program)
    return run_parser(file, arguments, data, interrupt or Interrupt())


def test_a_document_goes_in_and_what_is_printed_comes_out(tmp_path: Path) -> None:
    program = "import sys\nsys.stdout.write(sys.argv[1] + str(len(sys.stdin.buffer.read())))\nsys.stderr.write('noise')"
    assert run(tmp_path, program, b"x" * 3_000_000, "read ") == b"read 3000000"


def test_it_has_no_secret_and_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hidden-value-1")
    program = (
        "import json, os, resource as r\n"
        "limits = [r.getrlimit(one)[0] for one in (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_CORE)]\n"
        "print(json.dumps([sorted(os.environ), limits, os.getcwd()]))"
    )
    names, limits, folder = json.loads(run(tmp_path, program))
    assert set(names) <= {"LANG", "LC_CTYPE", "PATH", "PWD", "SHLVL", "_"}
    assert (limits, folder) == ([2 * 1024**3, 30, 0], "/")


def test_too_much_memory(tmp_path: Path) -> None:
    program = "try:\n    bytes(3 * 1024**3)\nexcept MemoryError:\n    print('refused')"
    assert run(tmp_path, program) == b"refused\n"


def test_a_parser_that_ends_early_loses_only_its_answer(tmp_path: Path) -> None:
    assert run(tmp_path, "import os\nos.write(1, b'half')\nos.kill(os.getpid(), 9)", b"x" * 3_000_000) == b"half"


def test_one_that_is_interrupted_is_stopped(tmp_path: Path) -> None:
    interrupt = Interrupt()
    interrupt.cancel("no longer wanted")
    with pytest.raises(Interrupted):
        run(tmp_path, "import time\ntime.sleep(1000)", interrupt=interrupt)
