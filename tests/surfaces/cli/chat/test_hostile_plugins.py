"""Plugins that misbehave in a real process: they block, leave threads behind, or write where answers belong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.testing import ScriptedProvider, text, tool_call
from support import run_hermes, start_hermes, write_config
from support.waiting import HANG, wait_until


def enable(home: Path, source: str, base_url: str, settings: str = "") -> None:
    """Write a plugin that is enabled, and the configuration."""
    folder = home / "plugins" / "culprit"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: culprit\n")
    (folder / "__init__.py").write_text(source)
    write_config(home, base_url, f"plugins:\n  enabled: [culprit]\n{settings}")


WRITES = """
import os, sys

def speak(**_fields):
    print("printed by a plugin")
    sys.__stdout__.write("written by a plugin\\n")
    sys.__stdout__.flush()
    os.write(1, b"bytes of a plugin\\n")
    os.system("echo child of a plugin")

def register(ctx):
    speak()
    ctx.register_hook("pre_llm_call", speak)
    ctx.register_hook("on_session_finalize", speak)
"""


@pytest.mark.parametrize("mode", ["--json", "--quiet", "--stream-json"])
def test_nothing_of_a_plugin_gets_into_output_for_programs(home: Path, workdir: Path, mode: str) -> None:
    with ScriptedProvider([text("The answer.")]) as provider:
        enable(home, WRITES, provider.base_url)
        done = run_hermes("chat", mode, "--query", "hi", home=home, cwd=workdir)
    assert done.returncode == 0, done.stderr
    assert "plugin" not in done.stdout
    if mode == "--quiet":
        assert done.stdout == "The answer.\n"
    else:
        lines = done.stdout.splitlines() if mode == "--stream-json" else [done.stdout]
        assert [json.loads(line) for line in lines]
    for what in ("printed by", "written by", "bytes of", "child of"):
        assert f"{what} a plugin" in done.stderr


THREAD = """
import threading

def register(ctx):
    threading.Thread(target=threading.Event().wait, name="uploader").start()
"""


def test_a_thread_that_does_not_end_does_not_keep_the_program(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("The answer.")]) as provider:
        enable(home, THREAD, provider.base_url, "  exit_timeout: 0.1\n")
        done = run_hermes("chat", "--quiet", "--query", "hi", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "The answer.\n")
    assert "threads of plugins have not ended (uploader)" in done.stderr


STUCK_AT_EXIT = """
import atexit, threading
from hermes.surfaces.cli import failures

failures._exit_timeout = lambda: 0.0
failures._EXIT_HANDLER_SECONDS = 0.0
atexit.register(threading.Event().wait)
failures.end_in_time(7)
"""


def test_an_exit_handler_that_does_not_end_does_not_keep_the_program() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK_AT_EXIT], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 7
    assert "exit handlers of plugins have not ended" in done.stderr


POOL = """
import concurrent.futures, pathlib, time

pool = concurrent.futures.ThreadPoolExecutor()

def register(ctx):
    pool.submit(lambda: (time.sleep(0.2), pathlib.Path("done.txt").write_text("done")))
"""


def test_threads_that_end_by_themselves_are_waited_for(home: Path, workdir: Path) -> None:
    with ScriptedProvider([text("The answer.")]) as provider:
        enable(home, POOL, provider.base_url, "  exit_timeout: 60\n")
        done = run_hermes("chat", "--quiet", "--query", "hi", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "The answer.\n")
    assert (workdir / "done.txt").read_text() == "done"
    assert "threads of plugins" not in done.stderr


BLOCKS = """
import pathlib, threading

def block(**_fields):
    pathlib.Path("blocking").touch()
    threading.Event().wait()

def register(ctx):
    ctx.register_hook("{hook}", block)
"""


@pytest.mark.parametrize("hook", ["on_session_start", "pre_llm_call", "pre_tool_call", "post_tool_call"])
def test_the_first_interrupt_works_while_a_plugin_blocks(home: Path, workdir: Path, hook: str) -> None:
    with ScriptedProvider([tool_call("read_file", {"path": "a"}), text("never")]) as provider:
        enable(home, BLOCKS.format(hook=hook), provider.base_url)
        process = start_hermes("chat", "--quiet", "--query", "hi", home=home, cwd=workdir)
        wait_until((workdir / "blocking").exists, "the plugin blocks")
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG) == 130


def test_the_first_interrupt_works_while_a_command_of_a_plugin_blocks(home: Path, workdir: Path) -> None:
    source = BLOCKS.replace('ctx.register_hook("{hook}", block)', 'ctx.register_command("wait", lambda raw: block())')
    with ScriptedProvider([]) as provider:
        enable(home, source, provider.base_url)
        process = start_hermes("chat", "--quiet", "--query", "/wait", home=home, cwd=workdir)
        wait_until((workdir / "blocking").exists, "the command blocks")
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG) == 130


@pytest.mark.parametrize("where", ["import", "register"])
def test_a_plugin_that_blocks_while_it_loads_is_left_out_and_named(home: Path, workdir: Path, where: str) -> None:
    code = "import threading\nthreading.Event().wait()\n"
    source = code if where == "import" else "def register(ctx):\n    " + code.replace("\n", "; ").rstrip("; ")
    with ScriptedProvider([text("The answer.")]) as provider:
        enable(home, source, provider.base_url, "  load_timeout: 0.2\n")
        done = run_hermes("chat", "--quiet", "--query", "hi", home=home, cwd=workdir)
    assert (done.returncode, done.stdout) == (0, "The answer.\n")
    reason = f"its {where} did not end: it has done nothing for 0.2 s"
    assert f"plugin culprit is enabled and did not load: {reason}" in done.stderr
