"""The user's editor, for a message that is easier to write there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from hermes.base.errors import HermesError

_USUAL = ("editor", "nano", "vim", "vi")


def edited_text(text: str) -> str:
    """The text as the user leaves it in ``$VISUAL`` or ``$EDITOR``, which takes over the terminal."""
    command = editor_command()
    descriptor, name = tempfile.mkstemp(prefix="hermes-message-", suffix=".md")
    path = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  (a descriptor)
            file.write(text)
        try:
            finished = subprocess.run([*command, name], check=False)
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
    found = next(filter(shutil.which, _USUAL), None)
    if found is None:
        raise HermesError("no editor was found; set EDITOR to the command of yours")
    return [found]
