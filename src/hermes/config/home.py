"""Where everything of one user lives."""

from __future__ import annotations

import os
from pathlib import Path

from hermes.errors import ConfigError


def hermes_home() -> Path:
    """``$HERMES_HOME``, or ``~/.hermes`` when it is not set. The directory need not exist."""
    named = os.environ.get("HERMES_HOME", "").strip()
    try:
        return Path(named or "~/.hermes").expanduser().absolute()
    except RuntimeError:
        raise ConfigError("no home directory is known for this user; set HERMES_HOME to a directory") from None


def config_path(home: Path) -> Path:
    """The configuration file of a home."""
    return home / "config.yaml"
