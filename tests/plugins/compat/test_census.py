"""The census: verdicts of trials, and one real trial of a wheel that is made here."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from census.verdict import BROKEN, LOADS, NETWORK, OURS, PACKAGE, WORKS, judge

ROOT = Path(__file__).parents[3]


def trial(*, failure: str = "", **fields: Any) -> dict[str, Any]:
    plugin = {"key": "p", "status": "failed" if failure else "loaded", "error": failure, "failure": failure}
    plugin |= {"missing_env": [], "problems": [], "registered": 1}
    ended: dict[str, Any] = {"status": "completed", "error": None, "failures": [], "outcomes": [], "refused": []}
    return {"is_plugin": True, "plugins": [plugin], "is_loaded": not failure, **ended, **fields}


@pytest.mark.parametrize(
    ("tried", "column"),
    [
        (trial(), WORKS),
        (trial(failure="ModuleNotFoundError: No module named 'numpy'"), PACKAGE),
        (trial(failure="ModuleNotFoundError: No module named 'gateway.nothing'"), OURS),
        (trial(failure="ImportError: cannot import name 'x' from 'agent.redact' (unknown location)"), OURS),
        (trial(failure="RuntimeError: MY_API_KEY is not set"), NETWORK),
        (trial(failure="SyntaxError: invalid syntax"), BROKEN),
        (trial(refused=["example.com"]), NETWORK),
        (trial(failures=["pre_llm_call: ZeroDivisionError: division by zero"]), BROKEN),
        (trial(status="failed", error="the turn failed"), OURS),
        ({"is_plugin": True, "host_error": "its process ended"}, OURS),
        ({"is_plugin": True, "timed_out": True}, NETWORK),
    ],
)
def test_where_a_trial_belongs(tried: dict[str, Any], column: str) -> None:
    assert judge(tried).column == column


def test_a_plugin_that_registers_nothing_only_loads() -> None:
    tried = trial()
    tried["plugins"][0]["registered"] = 0
    assert judge(tried).column == LOADS
    tried["plugins"][0]["missing_env"] = ["MY_KEY"]
    assert judge(tried) == (NETWORK, "MY_KEY")


def test_wheels_are_loaded_and_take_part_in_a_turn(tmp_path: Path) -> None:
    good = "from hermes_constants import get_hermes_home\ndef register(ctx):\n"
    good += "    ctx.register_hook('pre_llm_call', lambda **kw: {'context': str(get_hermes_home())})\n"
    for name, code in {"good": good, "ours": "import gateway.no_such_module\n"}.items():
        with zipfile.ZipFile(tmp_path / f"hermes_{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"census_{name}.py", code)
            wheel.writestr(
                f"hermes_{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: hermes-{name}\nVersion: 1.0\n"
            )
            wheel.writestr(
                f"hermes_{name}-1.0.dist-info/entry_points.txt", f"[hermes_agent.plugins]\n{name} = census_{name}\n"
            )
    command = [sys.executable, "-m", "tests.census", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "| hermes-good | does its job |" in done.stdout
    assert "| hermes-ours | fails because of us | gateway.no_such_module |" in done.stdout
    assert "1 load (50%), and 1 do their job (50%)" in done.stdout
