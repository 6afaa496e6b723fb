"""The examples of the pages do what the pages say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.agent.context.setup import OUT_OF_BUDGET, OUT_OF_TURNS
from hermes.testing import PluginHarness, ScriptedProvider, by_step, text, tool_call

from .console import SCRIPT, alike, examples, run_page
from .pages import DOCS, Block, all_pages, blocks

_WITH_PYTHON = [path for path in all_pages() if "```python" in path.read_text()]
_WITH_CONSOLE = [path for path in all_pages() if "```console" in path.read_text()]


@pytest.mark.parametrize("path", _WITH_PYTHON, ids=lambda path: path.name)
def test_python_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are files are put where their first line says; the others run, in a folder beside them."""
    monkeypatch.chdir(tmp_path)
    for block in blocks(path.read_text()):
        if block.file_name:
            block.write_below(tmp_path)
        elif block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
            exec(code, {"__name__": "__main__"})


@pytest.mark.parametrize("path", _WITH_PYTHON, ids=lambda path: path.name)
def test_plugins_that_are_shown_can_be_loaded(path: Path, tmp_path: Path) -> None:
    files = [block for block in blocks(path.read_text()) if block.file_name.startswith("plugins/")]
    for block in files:
        block.write_below(tmp_path)
    for manifest in sorted(tmp_path.glob("plugins/*/plugin.yaml")):
        if manifest.parent.name != "halfway":  # the one that shows how loading fails
            with PluginHarness(manifest.parent) as harness:
                assert harness.plugin.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("path", _WITH_CONSOLE, ids=lambda path: path.name)
def test_console_examples_print_what_the_page_shows(path: Path) -> None:
    for _, ran in run_page(path):
        for example, output in ran:
            assert alike(example.output, output), (
                f"{path.name}: $ {example.command}\nthe page has:\n{example.output}\nnow it prints:\n{output}\n"
                "If that is right, run: python -m tests.docs --examples"
            )


def test_everything_the_scripted_model_can_say_is_shown_somewhere() -> None:
    asked = "\n".join(block.text for path in _WITH_CONSOLE for block in blocks(path.read_text()))
    keys: dict[str, Any] = msgspec.json.decode(SCRIPT.read_bytes())
    assert [key for key in keys if key not in (OUT_OF_TURNS, OUT_OF_BUDGET) and key.strip() not in asked] == []


def test_examples_are_read_as_a_person_reads_them() -> None:
    block = Block("console", "$ one\n1\n\n2\n$ two <<END\n> three\n> END\nout\n", 1, 0, 0)
    assert [(example.command, example.output) for example in examples(block)] == [
        ("one", "1\n\n2\n"),
        ("two <<END\nthree\nEND", "out\n"),
    ]


def test_outputs_are_compared_without_times_and_ids() -> None:
    shown = "✓ read_file a  2 ms\nscripted · 10 in · 0.1 s · session 20260101_000000_abcdef\n"
    assert alike(shown, "✓ read_file a  1.5 s\nscripted · 10 in · 7 ms · session 20270202_111111_fedcba\n")
    assert not alike(shown, shown.replace("10 in", "11 in"))
    assert not alike(shown, shown.replace("✓", "✗"))
    children = "  ✓ child 1: a  1 ms\n  ✓ child 2: b  2 ms\n✓ delegate_task\n"
    assert alike(children, "  ✓ child 2: b  1 ms\n  ✓ child 1: a  2 ms\n✓ delegate_task\n")
    assert not alike(children, children.replace("child 2: b", "child 1: a"))


def test_a_turn_with_one_command_has_as_many_crash_points_as_the_page_says(tmp_path: Path) -> None:
    points = int(re.findall(r"^\| (\d+) \| everything", (DOCS / "journal.md").read_text(), re.MULTILINE)[0])
    command = [sys.executable, "-m", "hermes", "chat", "-Q", "-m", "scripted", "-q", "Go."]
    codes: list[int] = []
    with ScriptedProvider(by_step(tool_call("terminal", {"command": "true"}), text("Done."))) as provider:
        for number in (points, points + 1):
            own = {"HERMES_HOME": str(tmp_path / f"home{number}"), "HERMES_CRASH_AT": str(number)}
            environment = {**os.environ, "CUSTOM_BASE_URL": provider.base_url, **own}
            codes.append(subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True).returncode)
    assert codes == [-signal.SIGKILL, 0]
