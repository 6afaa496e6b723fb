"""``hermes local``: installs, shows and removes the embedded model, which needs no key."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes.base.config import load_config
from hermes.base.errors import ConfigError
from hermes.models.local.install.install import InstalledParts, inspect
from hermes.models.local.install.parts import DOWNLOAD_SIZE, RUNTIME
from hermes.models.local.install.weights import find_model
from hermes.models.local.running import running_states
from hermes.surfaces.cli import opened_home
from hermes.surfaces.cli.arguments import JSON, Action, CommandSpec
from hermes.surfaces.cli.report import Report

_MEGABYTE = 1_000_000

_EPILOG = """
'install' gets a small model for trying things offline: it chats in short sentences and can read a file or run a command
that you name. To use a better one (a GGUF file), set 'local.model_path' in config.yaml, or HERMES_LOCAL_MODEL.

examples:
  hermes local install
  hermes chat --provider local --query 'What is the capital of France?'
  HERMES_LOCAL_MODEL=~/models/other.gguf hermes chat --provider local
"""


def get_model(home: Path) -> InstalledParts:
    """Install the missing parts of the embedded model, with progress on stderr."""
    from hermes.models.local.install.install import install

    most, whole = 0, DOWNLOAD_SIZE // _MEGABYTE

    def show(size: int) -> None:
        """Overwrite one line; nothing without a terminal."""
        nonlocal most
        most = min(max(most, size), DOWNLOAD_SIZE)  # unpacking takes space too
        if sys.stderr.isatty():
            text = f"\r  {most // _MEGABYTE:3d} of about {whole} MB ({most * 100 // DOWNLOAD_SIZE} %)"
            print(text, end="", file=sys.stderr, flush=True)

    print(f"Downloading the runtime and the weights, about {whole} MB …", file=sys.stderr)
    try:
        return install(home, on_progress=show)
    finally:
        if sys.stderr.isatty() and most:
            print(file=sys.stderr)


def _install(_args: argparse.Namespace, home: Path) -> Report:
    parts = inspect(home)
    said = "already installed" if parts.is_complete else "installed"
    return _status_report(home, parts if parts.is_complete else get_model(home), [said])


def _status(_args: argparse.Namespace, home: Path) -> Report:
    return _status_report(home, inspect(home))


def _remove(_args: argparse.Namespace, home: Path) -> Report:
    from hermes.models.local.install.install import remove

    gone = remove(home)
    return Report({"removed": gone}, [f"removed: {what}" for what in gone] or ["nothing to remove"])


def _status_report(home: Path, parts: InstalledParts, lines: Sequence[str] = ()) -> Report:
    runtime, weights = parts.runtime, parts.weights
    model: dict[str, Any] | None = None
    error: str | None = None
    try:
        found = find_model(load_config(home).config.local, os.environ, home)
        model = {"name": found.name, "path": str(found.path), "context_length": found.context_length}
        usable = parts.is_complete if found.is_embedded else runtime is not None
    except ConfigError as problem:
        error, usable = str(problem), False
    servers = running_states(home)
    document = {
        "usable": usable,
        "runtime": runtime and {"version": runtime.version, "path": str(runtime.folder), "known": runtime.is_known},
        "weights": weights and {"path": str(weights), "intact": parts.is_intact},
        "model": model,
        "error": error,
        # Without the key.
        "servers": [{"pid": one.pid, "address": one.base_url, "model": one.model} for one in servers],
    }
    known = runtime is None or runtime.is_known
    note = "" if known else "; not a supported version, run 'hermes local install'"
    state = "checked" if parts.is_intact else "DAMAGED: run hermes local install"
    rows = {
        "runtime": f"{RUNTIME} {runtime.version} in {runtime.folder}{note}" if runtime else "not installed",
        "weights": f"{weights}, {state}" if weights else "not installed",
        "model": f"{model['name']}, context of {model['context_length']} tokens" if model else f"none: {error}",
        "server": ", ".join(f"process {one.pid} at {one.base_url}" for one in servers) or "not running",
    }
    shown = [(f"{name:<8}", text) for name, text in rows.items()]
    return Report(document, lines, rows=shown, code=0 if usable else 1)


COMMAND = CommandSpec(
    default="status",
    opened=opened_home,
    epilog=_EPILOG,
    actions=(
        Action("install", _install, "install the runtime and the weights with pip: about 127 MB, 200 MB on disk").takes(
            JSON
        ),
        Action(
            "status", _status, "show what is installed and running (the default); exit code 1 when it cannot run"
        ).takes(JSON),
        Action("remove", _remove, "remove what 'install' installed").takes(JSON),
    ),
)
