"""``agent.secret_sources.base``: the base class of places that secrets come from."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from hermes.plugins.compat.host import Names
    from hermes.plugins.context import Parts

_API_VERSION = 1
_FETCH_SECONDS = 120.0


class ErrorKind(StrEnum):
    """Why a fetch failed."""

    NOT_CONFIGURED = "not_configured"
    BINARY_MISSING = "binary_missing"
    AUTH_FAILED = "auth_failed"
    AUTH_EXPIRED = "auth_expired"
    REF_INVALID = "ref_invalid"
    NETWORK = "network"
    EMPTY_VALUE = "empty_value"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


@dataclass
class FetchResult:
    """What a source found, or why it found nothing."""

    secrets: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    applied: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])
    error: str | None = None
    error_kind: ErrorKind | None = None
    binary_path: Path | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing went wrong."""
        return self.error is None


class SecretSource:
    """Finds secrets in a vault, by the names they have in the environment. Configured under ``secrets.<name>``."""

    api_version: int = _API_VERSION
    name: str = ""
    label: str = ""
    #: ``mapped`` when each variable is bound to a secret by hand, ``bulk`` when a whole folder is taken.
    shape: str = "mapped"
    scheme: str | None = None

    def fetch(self, cfg: dict[str, Any], home_path: Path) -> FetchResult:
        """Find them. It neither raises nor asks anybody."""
        raise NotImplementedError(f"{self.name} does not fetch")

    def is_enabled(self, cfg: Any) -> bool:
        """Whether its section turns it on."""
        return _flag(cfg, "enabled")

    def override_existing(self, cfg: Any) -> bool:
        """Whether it may replace variables that are set already."""
        return _flag(cfg, "override_existing")

    def protected_env_vars(self, cfg: Any) -> frozenset[str]:
        """Variables that no source may replace."""
        return frozenset()

    def fetch_timeout_seconds(self, cfg: Any) -> float:
        """How long a fetch may take."""
        given: Any = cast("dict[str, Any]", cfg).get("timeout_seconds") if isinstance(cfg, dict) else None
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        return float(given) if is_number and given > 0 else _FETCH_SECONDS

    def config_schema(self) -> dict[str, Any]:
        """Its settings, described."""
        return {}

    def remediation(self, kind: ErrorKind | None, cfg: Any) -> str:
        """What a person can do about a failure."""
        return ""


def names(_parts: Parts) -> Names:
    """The class and what it answers with."""
    return {
        "DEFAULT_FETCH_TIMEOUT_SECONDS": _FETCH_SECONDS,
        "SECRET_SOURCE_API_VERSION": _API_VERSION,
        "ErrorKind": ErrorKind,
        "FetchResult": FetchResult,
        "SecretSource": SecretSource,
        "is_valid_env_name": _is_valid_env_name,
    }


def _flag(cfg: Any, name: str) -> bool:
    return isinstance(cfg, dict) and bool(cast("dict[str, Any]", cfg).get(name))


def _is_valid_env_name(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
