"""Which tests the edit loop runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tiers import TESTS

#: A module with slow and soak tests, in a folder whose tests are quick.
MODULE = TESTS / "surfaces" / "gateway" / "test_gateway_load.py"


def collected(expression: str) -> set[str]:
    """The tests of the module that an expression on the command line chooses."""
    options = ["-n", "0", "-p", "no:cacheprovider", "--collect-only", "-m", expression]
    command = [sys.executable, "-m", "pytest", *options, str(MODULE)]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    return {line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.parametrize("kind", ["slow", "soak"])
def test_the_edit_loop_runs_no_long_test(kind: str) -> None:
    long = collected(kind)
    assert long, "the module has such a test"
    assert collected("quick").isdisjoint(long)
