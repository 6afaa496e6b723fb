"""Completion scripts, in the real shells they are for; a shell that is not installed is skipped outside of CI."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from hermes.surfaces.cli.setup.completion import command_tree
from support import hermes_command
from support.waiting import HANG


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    return {
        shell: subprocess.run(
            hermes_command("completion", shell), capture_output=True, text=True, timeout=HANG, check=True
        ).stdout
        for shell in ("bash", "zsh", "fish")
    }


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        assert "HERMES_TEST_ALL_PROGRAMS" not in os.environ, f"{shell} is not installed"
        pytest.skip(f"{shell} is not installed")


EXPECTED = [
    (["se"], "sessions", "model"),
    (["sessions", "s"], "show", "list"),
    (["sessions", "show", "--j"], "--json", "--limit"),
    (["chat", "--qu"], "--quiet", "--json"),
    (["completion", "f"], "fish", "bash"),
]


@pytest.mark.parametrize(("words", "wanted", "unwanted"), EXPECTED)
def test_bash(scripts: dict[str, str], words: list[str], wanted: str, unwanted: str) -> None:
    need("bash")
    script = (
        f'{scripts["bash"]}\nCOMP_WORDS=(hermes "$@"); COMP_CWORD=$#; _hermes; printf \'%s\\n\' "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True)
    assert wanted in done.stdout.split() and unwanted not in done.stdout.split() and done.stderr == ""


@pytest.mark.parametrize(("words", "wanted", "unwanted"), EXPECTED)
def test_fish(scripts: dict[str, str], tmp_path: Path, words: list[str], wanted: str, unwanted: str) -> None:
    need("fish")
    script = f"{scripts['fish']}\ncomplete -C 'hermes {' '.join(words)}'"
    environment = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(["fish", "-c", script], capture_output=True, text=True, env=environment, check=True)
    offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert wanted in offered and unwanted not in offered


def test_zsh(scripts: dict[str, str], tmp_path: Path) -> None:
    need("zsh")
    (tmp_path / "hermes.zsh").write_text(scripts["zsh"])
    (tmp_path / "hermes").write_text('#!/bin/sh\nprintf "ran:%s\\n" "$*"\n')
    (tmp_path / "hermes").chmod(0o755)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "xterm"}
        os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
    try:
        os.write(terminal, b"autoload -U compinit; compinit -D; source ./hermes.zsh; print re''ady\n")
        _read_until(terminal, b"ready")
        os.write(terminal, b"hermes sess\tsh\t--js\t\n")
        assert b"ran:sessions show --json" in _read_until(terminal, b"ran:")
        os.write(terminal, b"exit\n")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def _read_until(terminal: int, mark: bytes) -> bytes:
    seen = b""
    while mark not in seen or b"\n" not in seen[seen.index(mark) :]:
        seen += os.read(terminal, 4096)
    return seen


def test_every_command_is_in_the_tree() -> None:
    tree = {node.path for node in command_tree().walk()}
    assert {("chat",), ("sessions", "export"), ("a2a", "serve"), ("config", "get"), ("completion",)} <= tree
