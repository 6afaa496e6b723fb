"""``!command`` at the prompt: a command of the user's own, whose output the next message brings along."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt

#: Output that the model gets; of more the middle is left out.
_MOST_CHARACTERS = 20_000
#: Lines that are shown while the command runs.
_MOST_SHOWN = 1_000


class ShellOutput(msgspec.Struct, frozen=True):
    """A finished command."""

    command: str
    exit_code: int
    output: str

    def as_context(self) -> str:
        """The command and its output, for the model."""
        output = self.output.rstrip()
        if len(output) > _MOST_CHARACTERS:
            half = _MOST_CHARACTERS // 2
            output = f"{output[:half]}\n[... {len(output) - 2 * half:,} characters left out ...]\n{output[-half:]}"
        head = f'<user_command exit_code="{self.exit_code}">'
        return f"{head}\n$ {self.command}\n{output}\n</user_command>"


def run_shell_command(
    command: str, cwd: Path, environment: Mapping[str, str], interrupt: Interrupt, show: Callable[[str], None]
) -> ShellOutput:
    """Run a command in the user's shell and show its lines as they come. It reads no input."""
    shell = environment.get("SHELL") or "/bin/sh"
    try:
        process = subprocess.Popen(
            [shell, "-c", command],
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise HermesError(f"{shell} cannot be run in {cwd}: {error.strerror}") from error
    assert process.stdout is not None
    lines: list[str] = []
    with process.stdout, interrupt.on_cancel(lambda: _kill(process)):
        for data in process.stdout:
            line = data.decode("utf-8", "replace").rstrip("\r\n")
            lines.append(line)
            if len(lines) <= _MOST_SHOWN:
                show(line)
        code = process.wait()
    if len(lines) > _MOST_SHOWN:
        show(f"... {len(lines) - _MOST_SHOWN:,} more lines")
    return ShellOutput(command, code, "\n".join(lines))


def user_environment(from_hermes: Mapping[str, str]) -> dict[str, str]:
    """The environment that Hermes was started in, without what it read from its own ``.env`` file."""
    return {name: value for name, value in os.environ.items() if from_hermes.get(name) != value}


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
