"""Checks of the machine: Python, packages, home folder, disk, clock, permissions of secret files, terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from hermes.base.config import config_path, env_path
from hermes.base.version import __version__
from hermes.journal.store.sqlite import database
from hermes.surfaces.cli.doctor.check import CheckResult, Installation, broken, ok, size, warning

OLDEST_PYTHON = (3, 11)
#: Package -> its module. Looked up, not imported: some are slow to import.
PACKAGES = {
    "cronsim": "cronsim",
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


def check_python(_installation: Installation) -> Iterator[CheckResult]:
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


def check_packages(_installation: Installation) -> Iterator[CheckResult]:
    """Hermes itself, and the packages it needs."""
    from importlib.util import find_spec

    yield ok("hermes", f"{__version__} ({Path(__file__).parents[3]})")
    missing: list[str] = []
    for package, module in PACKAGES.items():
        try:
            found = find_spec(module) is not None
        except (ImportError, ValueError):  # the package around it is missing or broken
            found = False
        missing += [] if found else [package]
    if missing:
        names = " ".join(missing)
        yield broken("packages", f"not installed: {names}", command=f"{sys.executable} -m pip install {names}")
    else:
        yield ok("packages", f"all {len(PACKAGES)} installed")


def check_home(installation: Installation) -> Iterator[CheckResult]:
    """The home folder: exists, is a folder, is writable."""
    home = installation.home
    elsewhere = "make it writable, or set HERMES_HOME to another folder"
    above = _nearest(home)
    if not home.exists() and above.is_dir() and os.access(above, os.W_OK | os.X_OK):
        yield ok("home", f"{home} (does not exist yet; the first run creates it)")
    elif not home.exists():
        yield broken("home", f"{home} does not exist and cannot be created in {above}", elsewhere)
    elif not home.is_dir():
        yield broken("home", f"{home} is not a folder", "move it away, or set HERMES_HOME to another folder")
    else:
        problem = _write_problem(home)
        yield broken("home", f"{home} cannot be written: {problem}", elsewhere) if problem else ok("home", str(home))


def check_disk(installation: Installation) -> Iterator[CheckResult]:
    """Free space for the journal."""
    import shutil

    free = shutil.disk_usage(_nearest(installation.home)).free
    detail = f"{size(free)} free"
    advice = "free some space, or set HERMES_HOME to a folder on another disk"
    if free < _NO_SPACE:
        yield broken("disk", f"{detail}: no conversation can be recorded", advice)
    elif free < _LITTLE_SPACE:
        yield warning("disk", detail, advice)
    else:
        yield ok("disk", detail)


def check_clock(installation: Installation) -> Iterator[CheckResult]:
    """A wrong clock makes TLS fail and mixes up the order of sessions."""
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(now))
    advice = "set the clock of this machine"
    if now < Path(__file__).stat().st_mtime - _DAY:
        yield warning("clock", f"{shown}, which is before hermes was installed", advice)
        return
    files = [file for file in (installation.database, config_path(installation.home)) if file.exists()]
    ahead = [file.name for file in files if file.stat().st_mtime > now + _DAY]
    if ahead:
        yield warning("clock", f"{shown}, which is before {ahead[0]} was last changed", advice)
    else:
        yield ok("clock", shown)


def _nearest(path: Path) -> Path:
    """The path, or its nearest existing parent."""
    return next((one for one in (path, *path.parents) if one.exists()), Path("/"))


def _write_problem(folder: Path) -> str:
    """Why a folder cannot be written, found by writing: permissions alone do not show it."""
    from tempfile import TemporaryFile

    try:
        with TemporaryFile(dir=folder) as file:
            file.write(b"\0" * 4096)
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return ""


_PRIVATE = 0o600
_OTHERS = 0o077
_WRITABLE = 0o022


def check_permissions(installation: Installation) -> Iterator[CheckResult]:
    """Files with keys or conversations are readable by their owner only."""
    keys = [env_path(installation.home), installation.home / "auth.json"]
    if installation.key_values() or installation.config is None:
        keys.append(config_path(installation.home))
    records = [installation.database, installation.home / "search.db"]
    found = [result for path in keys for result in _check(path, installation, holds_keys=True)]
    found += [result for path in records for result in _check(path, installation, holds_keys=False)]
    found += _check_home(installation)
    yield from found or [ok("secret files", "not readable by other users")]


def _check_home(installation: Installation) -> Iterator[CheckResult]:
    """Write access to the folder allows replacing a private file."""
    mode = stat.S_IMODE(installation.home.stat().st_mode) if installation.home.is_dir() else 0
    if not mode & _WRITABLE:
        return
    if installation.fix and _set_mode(installation.home, mode & ~_WRITABLE):
        yield ok("secret files", f"{installation.home} is no longer writable by other users", fixed=True)
        return
    detail = f"{installation.home} is writable by other users (mode {mode:04o})"
    yield broken("secret files", detail, command=f"chmod go-w {shlex.quote(str(installation.home))}", fixable=True)


def _check(path: Path, installation: Installation, *, holds_keys: bool) -> Iterator[CheckResult]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        yield broken("secret files", f"{path} cannot be checked: {error.strerror}", "check the folders above it")
        return
    if not stat.S_IMODE(status.st_mode) & _OTHERS:
        return
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if installation.fix and _set_mode(path, _PRIVATE):
        yield ok("secret files", f"mode of {path} changed from {mode} to 0600", fixed=True)
        return
    what = "contains keys" if holds_keys else "contains conversations"
    if installation.config is None and path == config_path(installation.home):
        what = "may contain keys"  # it cannot be read as configuration
    detail = f"{path} {what} and is readable by other users (mode {mode})"
    if status.st_uid != os.geteuid():
        yield warning("secret files", f"{detail}; it belongs to another user", "its owner must run chmod 600 on it")
        return
    result = broken if holds_keys else warning
    yield result("secret files", detail, command=f"chmod 600 {shlex.quote(str(path))}", fixable=True)


def _set_mode(path: Path, mode: int) -> bool:
    try:
        path.chmod(mode)
    except OSError:
        return False
    return True


_NARROW = 60


def check_terminal(_installation: Installation) -> Iterator[CheckResult]:
    """Encoding, type and width of the terminal."""
    encoding = (getattr(sys.stdout, "encoding", None) or "unknown").lower()
    if encoding.replace("-", "").replace("_", "") == "utf8":
        yield ok("encoding", encoding)
    else:
        yield warning("encoding", f"{encoding}: characters such as ✓ cannot be shown", command="export LANG=C.UTF-8")
    if not sys.stdout.isatty():
        yield ok("output", "not a terminal: no colours, 80 columns")
        return
    kind = os.environ.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        yield warning(
            "TERM", f"{kind or 'not set'}: no colours and no line editing", command="export TERM=xterm-256color"
        )
    else:
        colours = " without colours (NO_COLOR)" if "NO_COLOR" in os.environ else ""
        yield ok("TERM", f"{kind}{colours}")
    columns = shutil.get_terminal_size().columns
    if columns < _NARROW:
        yield warning("width", f"{columns} columns", f"make the window at least {_NARROW} columns wide, better 80")
    else:
        yield ok("width", f"{columns} columns")
