"""The notice of a machine whose sandbox is reduced or missing: one sentence, once per home."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

from hermes.base.config.files import write_atomically
from hermes.base.errors import ConfigError
from hermes.tools.sandbox.backend import SandboxProbe
from hermes.tools.sandbox.owner.program import find_bubblewrap


def shortcoming(found: SandboxProbe, setting: str) -> str:
    """What the machine lacks for ``terminal.sandbox``; empty when it has all of it."""
    if found.backend is not None and not found.backend.is_reduced:
        return ""
    if sys.platform == "darwin":
        advice = "there is none for macOS yet"
    elif find_bubblewrap() is None:
        advice = f"install bubblewrap (apt install bubblewrap) for {'one' if found.backend is None else 'the full one'}"
    else:
        advice = "bubblewrap does not work on this machine, and 'hermes doctor' says why"
    if found.backend is not None:
        return f"Commands run with a reduced sandbox: {advice}."
    what = "run without a sandbox" if setting == "auto" else f"are refused, because terminal.sandbox is {setting}"
    return f"Commands {what}: {advice}."


def is_new(sentence: str, told: Path) -> bool:
    """Whether the home was not told that yet. From now on it was; ``told`` is the file that remembers it."""
    with suppress(OSError, UnicodeDecodeError):
        if told.read_text("utf-8") == sentence:
            return False
    with suppress(OSError, ConfigError):  # then it is told again
        told.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(told, sentence)
    return True
