"""The census: verdicts of trials, and one real trial of a wheel that is made here."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from census.verdict import BROKEN, LOADS, NETWORK, OURS, PACKAGE, WORKS, judge

ROOT = Path(__file__).parents[3]


def trial(*, failure: str = "", problems: Sequence[str] = (), **fields: Any) -> dict[str, Any]:
    plugin = {"key": "p", "status": "failed" if failure else "loaded", "error": failure, "failure": failure}
    plugin |= {"missing_env": [], "problems": list(problems), "registered": 1}
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
        (trial(failure="ValueError: $MY_PRIVATE_KEY is required"), NETWORK),
        (trial(failure="it has no register(ctx) function", problems=["model provider 'x' cannot be used"]), OURS),
        (trial(refused=["example.com"]), NETWORK),
        (trial(failures=["pre_llm_call: ZeroDivisionError: division by zero"]), BROKEN),
        (trial(status="failed", error="the turn failed"), OURS),
        ({"is_plugin": True, "host_error": "its process ended"}, OURS),
        ({"is_plugin": True, "timed_out": True}, OURS),
        ({"is_plugin": True, "needs_python": ">=3.99"}, PACKAGE),
        (trial(outcomes=['send: {"error": "not configured, set X_TOKEN"}']), NETWORK),
        (trial(outcomes=["send: API error: X_KEY is not set"]), NETWORK),
        (trial(outcomes=['run: {"error": "tool binary not found: gh"}']), PACKAGE),
        (trial(outcomes=['run: {"error": {"message": "No module named \'tools.nothing\'"}}', "see: fine"]), OURS),
        (trial(outcomes=['run: {"error": "example is no date"}']), WORKS),
        (trial(outcomes=['run: {"error": "command is required"}']), WORKS),
        (trial(outcomes=['run: {"error": "example was not found"}']), WORKS),
        (trial(failure="AttributeError: 'PluginContext' object has no attribute 'register'"), BROKEN),
        (trial(failure="RuntimeError: it needs Hermes >= 0.21.0"), OURS),
        (trial(outcomes=['send: {"error": "not configured"}', 'list: {"items": []}']), WORKS),
        (trial(outcomes=['ask: {"error":"Tool execution failed: KeyError: \'x\'"}']), BROKEN),
        (trial(outcomes=["ask: Tool execution failed: FileNotFoundError: No such file or directory: 'gh'"]), PACKAGE),
        (trial(offers={"platform": "TypeError: can't instantiate gateway.platforms.base"}), OURS),
        (trial(offers={"platform": "ValueError: a token is needed"}), NETWORK),
        (trial(offers={"platform": ""}), NETWORK),
        (trial(offers={"memory_provider": ""}), WORKS),
        (trial(offers={"tts_provider": ""}), LOADS),
        (trial(offers={"tts_provider": "not available"}), NETWORK),
        (trial(tools=1, ready=0), NETWORK),
        (trial(tools=1, ready=1), WORKS),
        (trial(refused=["example.com"], outcomes=['list: {"items": []}']), WORKS),
        (trial(refused=["example.com"], outcomes=['list: {"error": "cannot connect"}']), NETWORK),
        (trial(failure="TypeError: PluginContext.register_tool() missing 2 required arguments"), BROKEN),
        (trial(problems=["register_context_engine needs an instance of a ContextEngine, got X"]), BROKEN),
        (trial(problems=["there is no hook 'never_heard_of'"]), WORKS),
        (trial(problems=["there is no hook 'kanban_task_done'"]), LOADS),
    ],
)
def test_where_a_trial_belongs(tried: dict[str, Any], column: str) -> None:
    assert judge(tried).column == column


def test_a_plugin_that_registers_nothing() -> None:
    tried = trial()
    tried["plugins"][0]["registered"] = 0
    assert judge(tried) == (NETWORK, "it registers nothing without its settings")
    tried["plugins"][0]["missing_env"] = ["MY_KEY"]
    assert judge(tried) == (NETWORK, "MY_KEY")
    tried["missed"] = ["tools.nothing"]
    assert judge(tried) == (OURS, "it registers nothing without tools.nothing")


def test_what_a_plugin_does_without_is_said() -> None:
    assert judge(trial(missed=["agent.nothing"])) == (WORKS, "without agent.nothing")


def test_wheels_are_loaded_and_take_part_in_a_turn(tmp_path: Path) -> None:
    good = "from hermes_constants import get_hermes_home\ndef register(ctx):\n"
    good += "    (get_hermes_home() / 'own.db').touch()\n"  # the home is there
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


def write_wheel(folder: Path, name: str, files: dict[str, str], entry_points: str = "", metadata: str = "") -> None:
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}"
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", about)
        wheel.writestr(f"{name}-1.0.dist-info/entry_points.txt", entry_points)


INSTALLER = """
import os, pathlib, sys
def main():
    if sys.argv[1:] != ["install-plugin"] or sys.modules.get("hermes"):
        sys.exit(2)
    folder = pathlib.Path(os.environ["HERMES_HOME"], "plugins", "brought")
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: brought")
    (folder / "__init__.py").write_text(pathlib.Path(__file__).with_name("plugin.py").read_text())
"""
HOOK = "import needed\ndef register(ctx):\n    ctx.register_hook('pre_llm_call', lambda **kw: None)\n"


def test_ways_in_which_a_plugin_comes(tmp_path: Path) -> None:
    wheels, packages = tmp_path / "wheels", tmp_path / "packages"
    wheels.mkdir()
    (packages / "installed").mkdir(parents=True)
    (packages / "installed" / "needed.py").touch()
    installed = {
        "inst/__init__.py": "",
        "inst/cli.py": INSTALLER,
        "inst/plugin.py": HOOK,
        "inst/plugin.yaml": "name: x",
    }
    write_wheel(wheels, "installed", installed, "[console_scripts]\ninst = inst.cli:main\n")
    point = "[hermes_agent.plugins]\nlater = later\n"
    write_wheel(wheels, "later", {"later.py": "def register(ctx): type X = int"}, point, "Requires-Python: >=3.99\n")
    write_wheel(wheels, "copy", {"run_agent.py": "", "hermes_cli/x.py": "", "p/plugin.yaml": "", "p/__init__.py": ""})
    seen = tmp_path / "seen.jsonl"
    command = [sys.executable, "-m", "tests.census", str(wheels), "--packages", str(packages), "--trials", str(seen)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "| installed | does its job |  |" in done.stdout
    assert "| later | needs a package or program | Python >=3.99 |" in done.stdout
    assert "| copy |" not in done.stdout
    assert [json.loads(line)["name"] for line in seen.read_text().splitlines()] == ["installed", "later"]
