"""Programs of the user: the clipboard, the editor for a message, and the shell for ``!command``."""

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from hermes.agent.images.attachments import MAX_IMAGE_BYTES, image_type
from hermes.base.errors import HermesError
from hermes.base.programs import find_program, owners_command
from hermes.base.scope import Interrupt

#: Editors that are looked for when the user has chosen none.
_EDITORS = ("editor", "nano", "vim", "vi")
#: Seconds that a clipboard program may take.
_SECONDS = 5.0
#: Terminals ignore longer sequences; xterm takes the least.
MAX_OSC_BYTES = 70_000

#: Output of a shell command that the model gets; of more the middle is left out.
_MOST_CHARACTERS = 20_000
#: Lines that are shown while it runs.
_MOST_SHOWN = 1_000

#: Variable that must be set (empty: macOS only), and the program that takes text on its input.
_WRITERS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-in")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
)
#: The same for programs that print the image in the clipboard as PNG.
_READERS = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    ("", ("pngpaste", "-")),
)


def copy_with_program(text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Give text to the clipboard program of the desktop; False when there is none that works."""
    for command in _usable(_WRITERS, environ):
        try:
            # It may stay in the background to serve the text: its output must not be waited for.
            subprocess.run(
                command,
                input=text.encode("utf-8", "replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return True
    return False


def copy_sequence(text: str) -> str | None:
    """The escape sequence (OSC 52) that asks the terminal to take the text; None when it is too long for one."""
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode()
    return f"\x1b]52;c;{encoded}\x07" if len(encoded) <= MAX_OSC_BYTES else None


def clipboard_image(environ: Mapping[str, str] = os.environ) -> bytes:
    """The image in the clipboard. ``HermesError`` says what is missing."""
    commands = _usable(_READERS, environ)
    if not commands:
        needed = "pngpaste" if sys.platform == "darwin" else "wl-clipboard or xclip, and a desktop (not over SSH)"
        raise HermesError(
            f"images cannot be read from the clipboard here: it needs {needed}. Or name a file: ./shot.png"
        )
    for command in commands:
        try:
            finished = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError):
            continue
        if finished.returncode == 0 and image_type(finished.stdout[:16]) is not None:
            if len(finished.stdout) > MAX_IMAGE_BYTES:
                raise HermesError(f"the image is larger than {MAX_IMAGE_BYTES:,} bytes. Make it smaller")
            return finished.stdout
    raise HermesError("the clipboard has no image")


def _usable(programs: Sequence[tuple[str, tuple[str, ...]]], environ: Mapping[str, str]) -> list[tuple[str, ...]]:
    usable: list[tuple[str, ...]] = []
    for variable, (name, *arguments) in programs:
        is_there = environ.get(variable) if variable else sys.platform == "darwin"
        if is_there and (program := find_program(name)):
            usable.append((program, *arguments))
    return usable


def edited_text(text: str) -> str:
    """The text as the user leaves it in ``$VISUAL`` or ``$EDITOR``, which takes over the terminal."""
    command = editor_command()
    descriptor, name = tempfile.mkstemp(prefix="hermes-message-", suffix=".md")
    path = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  (a descriptor)
            file.write(text)
        try:
            finished = subprocess.run([*owners_command(command), name], check=False)
        except OSError as error:
            raise HermesError(f"the editor {command[0]} cannot be run: {error.strerror}; set EDITOR") from error
        if finished.returncode != 0:
            raise HermesError(f"the editor {command[0]} ended with code {finished.returncode}; the text is unchanged")
        return path.read_text("utf-8", "replace").rstrip("\n")
    finally:
        path.unlink(missing_ok=True)


def editor_command() -> list[str]:
    """The command of the user's editor. ``HermesError`` says how to choose one."""
    wanted = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if wanted:
        return shlex.split(wanted)
    found = next(filter(find_program, _EDITORS), None)
    if found is None:
        raise HermesError("no editor was found; set EDITOR to the command of yours")
    return [found]


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
