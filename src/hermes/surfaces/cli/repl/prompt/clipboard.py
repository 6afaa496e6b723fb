"""The clipboard: text is put there through a program of the desktop or the terminal itself, images are read from it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from hermes.agent.images.attachments import MAX_IMAGE_BYTES, image_type
from hermes.base.errors import HermesError

#: Seconds that a clipboard program may take.
_SECONDS = 5.0
#: Terminals ignore longer sequences; xterm takes the least.
MAX_OSC_BYTES = 70_000

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
    return [
        command
        for variable, command in programs
        if (environ.get(variable) if variable else sys.platform == "darwin") and shutil.which(command[0])
    ]
