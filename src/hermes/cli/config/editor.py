"""``hermes config edit``: an editor on a copy, which replaces the file only when it is in order."""

from __future__ import annotations

import os
import secrets
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from hermes.cli.terminal import plain
from hermes.config import config_path, load_env_file
from hermes.config.edit import replace_config
from hermes.config.load import load_text, read_text
from hermes.errors import ConfigError

_FIRST_TEXT = "# Settings of Hermes. 'hermes config show' lists them all with their defaults.\n"


def edit_by_hand(home: Path) -> int:
    """Let the person edit the configuration; what cannot be used is kept beside it and never put in its place."""
    path = config_path(home)
    before = read_text(path) or ""
    copy = _make_copy(home, before or _FIRST_TEXT)
    while True:
        _run_editor(copy)
        after = read_text(copy) or ""
        if after in (before, "" if before else _FIRST_TEXT):
            copy.unlink(missing_ok=True)
            print(f"{path} is unchanged")
            return 0
        try:
            loaded = load_text(after, copy, {**os.environ, **load_env_file(home)})
            replace_config(home, before, after)
            break
        except ConfigError as error:
            print(f"Error: {plain(str(error))}", file=sys.stderr)
            if not _wants_another_try():
                print(f"{path} is unchanged; your edit is kept in {copy}", file=sys.stderr)
                return 1
    copy.unlink(missing_ok=True)
    for warning in loaded.warnings:
        print(f"Warning: {plain(warning.replace(str(copy), str(path)))}", file=sys.stderr)
    print(f"{path} is saved")
    return 0


def _make_copy(home: Path, text: str) -> Path:
    copy = home / f"config.edit-{secrets.token_hex(3)}.yaml"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{home}: cannot be written: {error.strerror}") from None
    return copy


def _run_editor(copy: Path) -> None:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    # Ctrl-C belongs to the editor while it runs. A handler, unlike "ignore", is not inherited by it.
    previous = signal.signal(signal.SIGINT, _leave_to_editor)
    try:
        code = subprocess.run([*shlex.split(command), str(copy)], check=False).returncode
    except (OSError, ValueError) as error:
        copy.unlink(missing_ok=True)
        raise ConfigError(f"cannot start the editor {command!r} ({error}); set VISUAL or EDITOR") from None
    finally:
        signal.signal(signal.SIGINT, previous)
    if code:
        raise ConfigError(f"the editor {command!r} ended with code {code}; nothing is changed, the copy is {copy}")


def _leave_to_editor(_number: int, _frame: object) -> None:
    """Do nothing about a signal."""


def _wants_another_try() -> bool:
    if not sys.stdin.isatty():
        return False
    try:
        answer = input("Edit again? [Y/n] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("", "y", "yes")
