"""Checks of the ground everything stands on: Python, the packages, the home folder, the disk and the clock."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hermes.cli.doctor.finding import Finding, broken, ok, size, warning
from hermes.cli.doctor.patient import Patient
from hermes.journal import database
from hermes.version import __version__

OLDEST_PYTHON = (3, 11)
#: Package -> the module it brings. Looked up, not imported: some of them take a while.
PACKAGES = {
    "h11": "h11",
    "jsonschema": "jsonschema",
    "markdown-it-py": "markdown_it",
    "msgspec": "msgspec",
    "prompt_toolkit": "prompt_toolkit",
    "PyYAML": "yaml",
    "rich": "rich",
    "ruamel.yaml": "ruamel.yaml",
    "tree-sitter": "tree_sitter",
    "tree-sitter-bash": "tree_sitter_bash",
}

_LITTLE_SPACE = 200_000_000
_NO_SPACE = 10_000_000
_DAY = 86_400.0


def check_python(_patient: Patient) -> Iterator[Finding]:
    """The interpreter, and the SQLite that comes with it."""
    import sqlite3

    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        yield broken("python", f"{version}; {needed} or newer is needed", "install hermes with a newer Python")
    else:
        yield ok("python", f"{version} ({sys.executable})")
    database.check_sqlite_version()
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5 (text)")
        yield ok("sqlite", sqlite3.sqlite_version)
    except sqlite3.OperationalError:
        yield warning(
            "sqlite",
            f"{sqlite3.sqlite_version} without full-text search (FTS5): sessions cannot be searched",
            "use a Python whose SQLite has FTS5, as those of python.org and of the distributions do",
        )
    finally:
        connection.close()


def check_packages(_patient: Patient) -> Iterator[Finding]:
    """Hermes itself, and whether what it needs is installed."""
    from importlib.util import find_spec

    def is_there(module: str) -> bool:
        try:
            return find_spec(module) is not None
        except (ImportError, ValueError):  # the package around it is missing or broken
            return False

    yield ok("hermes", f"{__version__} ({Path(__file__).parents[2]})")
    missing = [package for package, module in PACKAGES.items() if not is_there(module)]
    if missing:
        names = " ".join(missing)
        yield broken("packages", f"not installed: {names}", command=f"{sys.executable} -m pip install {names}")
    else:
        yield ok("packages", f"all {len(PACKAGES)} are installed")


def check_home(patient: Patient) -> Iterator[Finding]:
    """The home folder: there, a folder, writable."""
    home = patient.home
    elsewhere = "make it writable for you, or set HERMES_HOME to another folder"
    if not home.exists():
        above = _nearest(home)
        if above.is_dir() and os.access(above, os.W_OK | os.X_OK):
            yield ok("home", f"{home} (it does not exist yet; the first run makes it)")
        else:
            yield broken("home", f"{home} does not exist and cannot be made in {above}", elsewhere)
    elif not home.is_dir():
        yield broken("home", f"{home} is not a folder", "move it away, or set HERMES_HOME to another folder")
    else:
        problem = _write_problem(home)
        yield broken("home", f"{home} cannot be written: {problem}", elsewhere) if problem else ok("home", str(home))


def check_disk(patient: Patient) -> Iterator[Finding]:
    """Room for the journal to grow."""
    import shutil

    free = shutil.disk_usage(_nearest(patient.home)).free
    detail = f"{size(free)} free"
    advice = "free some space, or set HERMES_HOME to a folder on another disk"
    if free < _NO_SPACE:
        yield broken("disk", f"{detail}: no conversation can be recorded", advice)
    elif free < _LITTLE_SPACE:
        yield warning("disk", detail, advice)
    else:
        yield ok("disk", detail)


def check_clock(patient: Patient) -> Iterator[Finding]:
    """A clock that is far off makes TLS fail and mixes up the order of sessions."""
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    advice = "set the clock of this machine"
    if now < Path(__file__).stat().st_mtime - _DAY:
        yield warning("clock", f"{shown}, which is before hermes was installed", advice)
        return
    ahead = [file.name for file in (patient.database, patient.home / "config.yaml") if _changed_at(file) > now + _DAY]
    if ahead:
        yield warning("clock", f"{shown}, which is before the last change of {ahead[0]}", advice)
    else:
        yield ok("clock", shown)


def _nearest(path: Path) -> Path:
    """The path, or what is there of the way to it."""
    return next((place for place in (path, *path.parents) if place.exists()), Path("/"))


def _write_problem(folder: Path) -> str:
    """Why nothing can be written into a folder, found by doing it. Permissions alone do not tell."""
    from tempfile import TemporaryFile

    try:
        with TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _changed_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0
