"""Principals of the configuration, and the part of a home that belongs to each of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.errors import ConfigError

if TYPE_CHECKING:
    from hermes.base.config.schema.sections import Config, PrincipalConfig

FOLDER = "principals"
#: Surfaces whose callers are strangers to the owner of the home.
SERVED_PLATFORMS = ("a2a", "api_server", "gateway")
_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def principal_home(home: Path, principal: str) -> Path:
    """The folder of a principal below the home; of the owner (the empty name) it is the home itself."""
    return home / FOLDER / _file_name(principal) if principal else home


@lru_cache(maxsize=4_096)
def default_workspace(home: Path, principal: str) -> Path:
    """The folder that the work for a caller is done in, unless the configuration gives it another."""
    return principal_home(home, principal) / "workspace"


def make_private(folder: Path) -> Path:
    """Make a folder, and those above it that are missing, for the owner of the home alone."""
    for missing in reversed([one for one in (folder, *folder.parents) if not one.is_dir()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    return folder


def _file_name(principal: str) -> str:
    """The name as one file name: other characters are percent-encoded, and so is a dot at the start."""
    encoded = "".join(c if c in _SAFE else "".join(f"%{byte:02X}" for byte in c.encode()) for c in principal)
    return f"%2E{encoded[1:]}" if encoded.startswith(".") else encoded


def configured_principals(config: Config) -> Iterator[tuple[str, str, PrincipalConfig]]:
    """The principals with their settings and names: those of ``principals``, and of its older place in ``a2a``."""
    for name, entry in config.principals.items():
        yield f"principals.{name}", name, entry
    for name, entry in config.a2a.principals.items():
        if name in config.principals:
            raise ConfigError(f"principals.{name} and a2a.principals.{name} are the same caller; keep the first one")
        yield f"a2a.principals.{name}", name, entry
