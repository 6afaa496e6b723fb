"""The ``.env`` file: reading it, references to it in the configuration, and changing it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any, cast

from hermes.base.errors import ConfigError

# Kept as text: a pattern is compiled by the first use, and most runs have no use for these.
_LINE = r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)"
_REFERENCE = r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}"
_VARIABLE = r"[A-Z_][A-Z0-9_]*"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

#: Names of settings that may refer to the environment: where a service is and what opens it.
_REFERRING = ("url", "api_base", "key", "token", "secret", "password", "authorization")
_HEADER_MAPS = ("extra_headers", "headers")
#: The entries of these are expanded when they are used: one that is not used needs no variable.
_EXPANDED_LATER = "mcp_servers"
_DEEPEST = 200


def holds_secret_or_address(key: str) -> bool:
    """Whether a setting of this name may be a secret or an address, so that its value is not shown in errors."""
    return key.lower().endswith(_REFERRING)


def is_variable(key: str) -> bool:
    """Whether a key of ``hermes config`` names an environment variable: capitals, digits and underscores."""
    return re.fullmatch(_VARIABLE, key) is not None


def env_path(home: Path) -> Path:
    """The environment file of a home."""
    return home / ".env"


def load_env_file(home: Path, *, warnings: list[str] | None = None) -> dict[str, str]:
    """The variables of ``$HERMES_HOME/.env``; none when there is no such file.

    Lines that cannot be read are left out and named in ``warnings`` by number, never by content.
    """
    path = env_path(home)
    complaints = warnings if warnings is not None else []
    try:
        data = path.read_bytes()
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; check what it is and who may read it") from None
    values: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        pair = _parse_line(line)
        if pair is None:
            complaints.append(f"{path}, line {number}: not a NAME=value line; it is left out")
        else:
            values[pair[0]] = pair[1]
    if values and mode & 0o077:
        complaints.append(f"{path}: others on this machine can read it; run: chmod 600 {path}")
    return values


def apply_env(values: Mapping[str, str], environ: MutableMapping[str, str] | None = None) -> None:
    """Put the variables of the file into the environment; they win over those of the shell."""
    target = os.environ if environ is None else environ
    # The file lies inside the home it would rename: following it would split one run over two homes.
    target.update({name: value for name, value in values.items() if name != "HERMES_HOME"})


def _parse_line(line: str) -> tuple[str, str] | None:
    matched = re.fullmatch(_LINE, line)
    if matched is None or "\0" in line or "\ufffd" in line:
        return None
    name, text = matched[1], matched[2]
    if text[:1] not in ("'", '"'):
        return name, re.split(r"\s+#|^#", text, maxsplit=1)[0].rstrip()
    pattern = r"'([^']*)'" if text[0] == "'" else r'"((?:[^"\\]|\\.)*)"'
    quoted = re.fullmatch(pattern + r"\s*(?:#.*)?", text)
    if quoted is None:
        return None
    if text[0] == "'":
        return name, quoted[1]
    return name, re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[1])


def expand_references(
    document: dict[str, Any], environ: Mapping[str, str], complain: Callable[[str], None]
) -> dict[str, Any]:
    """A copy of the document in which ``${NAME}`` in keys, tokens, addresses and headers has its value.

    A value that refers to a variable that is not set becomes empty, as if it had not been written.
    """

    def expand(text: str, path: str) -> str:
        missing = [name for name in re.findall(_REFERENCE, text) if name not in environ]
        for name in missing:
            complain(f"{path} refers to ${{{name}}}, which is not set in the environment or in .env")
        return "" if missing else re.sub(_REFERENCE, lambda reference: environ[reference[1]], text)

    def walk(value: Any, path: str, expands: bool, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ConfigError(f"{path[:60]}: a reference to itself")
        if isinstance(value, dict):
            items = cast("dict[object, Any]", value).items()
            return {key: step(str(key), item, path, expands, depth) for key, item in items}
        if isinstance(value, list):
            return [walk(item, path, expands, depth + 1) for item in cast("list[Any]", value)]
        if isinstance(value, str) and expands and "${" in value:
            return expand(value, path)
        return value

    def step(key: str, item: Any, path: str, expands: bool, depth: int) -> Any:
        if key == _EXPANDED_LATER and not path:
            return item
        inner = expands or key in _HEADER_MAPS or holds_secret_or_address(key)
        return walk(item, f"{path}.{key}" if path else key, inner, depth + 1)

    return walk(document, "", False, 0)


# -- editing ---------------------------------------------------------------------------------------------------------


def save_env(home: Path, values: Mapping[str, str]) -> None:
    """Set variables in ``.env``, which is then private to its owner."""
    for name, value in values.items():
        if not value.isprintable() or "\ufffd" in value:
            raise ConfigError(f"the value for {name} holds characters that cannot be stored; it was not saved")

    def change(lines: list[str]) -> None:
        for name, value in values.items():
            line = f"{name}={_quoted(value)}"
            *others, last = [index for index, text in enumerate(lines) if _sets(text, name)] or [len(lines)]
            lines[last : last + 1] = [line]
            for index in reversed(others):
                del lines[index]  # the last one counts, and the others may hold a former secret

    _change(home, change)


def remove_env(home: Path, name: str) -> bool:
    """Remove a variable from ``.env``, every line of it. False when the file does not have it."""
    removed: list[str] = []

    def change(lines: list[str]) -> None:
        removed.extend(line for line in lines if _sets(line, name))
        lines[:] = [line for line in lines if line not in removed]

    _change(home, change)
    return bool(removed)


def _change(home: Path, change: Callable[[list[str]], None]) -> None:
    """Change the lines of the file under the lock of the home's files; one that stays the same is not written."""
    from hermes.base.config.files import locked, write_atomically
    from hermes.base.config.load import read_text

    with locked(home):
        path = env_path(home)
        before = (read_text(path) or "").splitlines()
        after = list(before)
        change(after)
        if after != before:
            write_atomically(path, "".join(f"{line}\n" for line in after))
        if path.exists():
            path.chmod(0o600)


def _sets(line: str, name: str) -> bool:
    return re.match(rf"\s*(?:export\s+)?{re.escape(name)}\s*=", line) is not None


def _quoted(value: str) -> str:
    if "'" not in value:
        return f"'{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
