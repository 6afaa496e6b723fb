"""``hermes local``: installs, shows and removes the embedded model, which needs no key."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from hermes.cli.terminal import plain, print_json
from hermes.config import apply_env, hermes_home, load_config, load_env_file
from hermes.config.schema.sections import LocalConfig
from hermes.errors import ConfigError
from hermes.local.install.install import InstalledParts, inspect
from hermes.local.install.parts import DOWNLOAD_SIZE, RUNTIME
from hermes.local.install.weights import find_model
from hermes.local.running import running_states

_MEGABYTE = 1_000_000

_EPILOG = """
'install' gets a small model for trying things offline: it chats in short sentences and can read a file or run a command
that you name. To use a better one (a GGUF file), set 'local.model_path' in config.yaml, or HERMES_LOCAL_MODEL.

examples:
  hermes local install
  hermes chat --provider local --query 'What is the capital of France?'
  HERMES_LOCAL_MODEL=~/models/other.gguf hermes chat --provider local
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.set_defaults(action=_status, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    for name, action, summary in (
        ("install", _install, "install the runtime and the weights with pip: about 127 MB, 200 MB on disk"),
        ("status", _status, "show what is installed and running (the default); exit code 1 when it cannot run"),
        ("remove", _remove, "remove what 'install' installed"),
    ):
        made = actions.add_parser(name, help=summary, description=summary)
        made.add_argument("--json", action="store_true", help="print one JSON document")
        made.set_defaults(action=action)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    home = hermes_home()
    apply_env(load_env_file(home))
    return args.action(args, home)


def get_model(home: Path) -> InstalledParts:
    """Install the missing parts of the embedded model, with progress on stderr."""
    from hermes.local.install.install import install

    progress = _Progress(sys.stderr)
    print(f"Downloading the runtime and the weights, about {DOWNLOAD_SIZE // _MEGABYTE} MB …", file=sys.stderr)
    try:
        return install(home, on_progress=progress.show)
    finally:
        progress.close()


def _install(args: argparse.Namespace, home: Path) -> int:
    parts = inspect(home)
    if parts.is_complete:
        said = "already installed"
    else:
        parts, said = get_model(home), "installed"
    if not args.json:
        print(said)
    return _show(args, home, parts)


def _status(args: argparse.Namespace, home: Path) -> int:
    return _show(args, home, inspect(home))


def _remove(args: argparse.Namespace, home: Path) -> int:
    from hermes.local.install.install import remove

    gone = remove(home)
    if args.json:
        print_json({"removed": gone})
    else:
        lines = [f"removed: {plain(what)}" for what in gone]
        print("\n".join(lines or ["nothing to remove"]))
    return 0


def _show(args: argparse.Namespace, home: Path, parts: InstalledParts) -> int:
    status = _describe(home, load_config(home).config.local, parts)
    if args.json:
        print_json(status)
    else:
        for name in ("runtime", "weights", "model", "server"):
            print(f"{name:<8}  {plain(_LINES[name](status))}")
    return 0 if status["usable"] else 1


def _describe(home: Path, settings: LocalConfig, parts: InstalledParts) -> dict[str, Any]:
    runtime, weights = parts.runtime, parts.weights
    model: dict[str, Any] | None = None
    error: str | None = None
    try:
        found = find_model(settings, os.environ, home)
        model = {"name": found.name, "path": str(found.path), "context_length": found.context_length}
        usable = parts.is_complete if found.is_embedded else runtime is not None
    except ConfigError as problem:
        error, usable = str(problem), False
    return {
        "usable": usable,
        "runtime": runtime and {"version": runtime.version, "path": str(runtime.folder), "known": runtime.is_known},
        "weights": weights and {"path": str(weights), "intact": parts.is_intact},
        "model": model,
        "error": error,
        # Without the key.
        "servers": [{"pid": one.pid, "address": one.base_url, "model": one.model} for one in running_states(home)],
    }


def _runtime_line(status: dict[str, Any]) -> str:
    runtime = status["runtime"]
    if runtime is None:
        return "not installed"
    note = "" if runtime["known"] else "; not a supported version, run 'hermes local install'"
    return f"{RUNTIME} {runtime['version']} in {runtime['path']}{note}"


def _weights_line(status: dict[str, Any]) -> str:
    weights = status["weights"]
    if weights is None:
        return "not installed"
    return f"{weights['path']}, {'checked' if weights['intact'] else 'DAMAGED: run hermes local install'}"


def _model_line(status: dict[str, Any]) -> str:
    model = status["model"]
    return f"{model['name']}, context of {model['context_length']} tokens" if model else f"none: {status['error']}"


def _server_line(status: dict[str, Any]) -> str:
    return ", ".join(f"process {one['pid']} at {one['address']}" for one in status["servers"]) or "not running"


_LINES = {"runtime": _runtime_line, "weights": _weights_line, "model": _model_line, "server": _server_line}


class _Progress:
    """Download progress on one line that is overwritten; nothing without a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream if stream.isatty() else None
        self._most = 0

    def show(self, size: int) -> None:
        self._most = min(max(self._most, size), DOWNLOAD_SIZE)  # unpacking takes space too
        if self._stream is not None:
            done, whole = self._most // _MEGABYTE, DOWNLOAD_SIZE // _MEGABYTE
            self._stream.write(f"\r  {done:3d} of about {whole} MB ({self._most * 100 // DOWNLOAD_SIZE} %)")
            self._stream.flush()

    def close(self) -> None:
        if self._stream is not None and self._most:
            self._stream.write("\n")
