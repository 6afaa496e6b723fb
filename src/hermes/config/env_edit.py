"""Changes the ``.env`` file of a home: one variable at a time, the rest stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hermes.config.environment import env_path
from hermes.config.files import locked, write_atomically
from hermes.config.load import read_text
from hermes.errors import ConfigError


def save_env(home: Path, values: Mapping[str, str]) -> None:
    """Set variables in ``.env``, which is then private to its owner."""
    for name, value in values.items():
        if not value.isprintable() or "\ufffd" in value:
            raise ConfigError(f"the value for {name} holds characters that cannot be kept; it was not saved")
    with locked(home):
        path = env_path(home)
        lines = (read_text(path) or "").splitlines()
        for name, value in values.items():
            line = f"{name}={_quoted(value)}"
            own = re.compile(rf"\s*(?:export\s+)?{re.escape(name)}\s*=")
            places = [index for index, text in enumerate(lines) if own.match(text)]
            if places:
                lines[places[-1]] = line  # of several the last counts
            else:
                lines.append(line)
        write_atomically(path, "\n".join(lines) + "\n")
        path.chmod(0o600)


def _quoted(value: str) -> str:
    if "'" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
