"""``utils``: small helpers that published plugins import."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from hermes.base.config.files import replace_file

TRUTHY_STRINGS = frozenset({"1", "true", "yes", "on"})


def is_truthy_value(value: Any, default: bool = False) -> bool:
    """Whether a setting means yes."""
    if value is None:
        return default
    return value.strip().lower() in TRUTHY_STRINGS if isinstance(value, str) else bool(value)


def env_var_enabled(name: str, default: str = "") -> bool:
    """Whether a switch in the environment is on."""
    return is_truthy_value(os.environ.get(name, default))


def env_bool(name: str, default: bool = False) -> bool:
    """The same, with a default for a switch that is not set."""
    text = os.environ.get(name, "").strip()
    return is_truthy_value(text) if text else default


def env_int(name: str, default: int = 0) -> int:
    """A whole number from the environment."""
    try:
        return int(os.environ.get(name, "").strip())
    except ValueError:
        return default


def env_float(name: str, default: float = 0.0) -> float:
    """A number from the environment."""
    try:
        return float(os.environ.get(name, "").strip())
    except ValueError:
        return default


def safe_json_loads(text: Any, default: Any = None) -> Any:
    """The value in a JSON text, or the default when there is none."""
    import json  # as lenient as plugins know it, with NaN and lone surrogates

    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return default


def read_json_or_empty(path: str | Path) -> dict[str, Any]:
    """The JSON object in a file; an empty one when there is none."""
    try:
        value = msgspec.json.decode(Path(path).read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def atomic_json_write(
    path: str | Path,
    data: Any,
    *,
    indent: int | None = 2,
    mode: int | None = None,
    ensure_ascii: bool = False,
    **dump_kwargs: Any,
) -> None:
    """Write a value as JSON: the file is the old one or the new one, never half of it."""
    import json  # its keyword arguments are the contract

    text = json.dumps(data, indent=indent, ensure_ascii=ensure_ascii, **dump_kwargs)
    _write(Path(path), text.encode("utf-8", "backslashreplace"), mode)


def atomic_yaml_write(path: str | Path, data: Any, *, mode: int | None = None, **dump_kwargs: Any) -> None:
    """The same as YAML."""
    import yaml

    options: dict[str, Any] = {"default_flow_style": False, "sort_keys": False, "allow_unicode": True}
    text = cast("str", yaml.safe_dump(data, **{**options, **dump_kwargs}))
    _write(Path(path), text.encode(), mode)


def atomic_write_text(path: str | Path, content: str, *, encoding: str = "utf-8", mode: int | None = None) -> None:
    """The same with a text."""
    _write(Path(path), content.encode(encoding), mode)


def atomic_replace(tmp_path: str | Path, target: str | Path) -> str:
    """Move a file to its target, through a symbolic link if the target is one."""
    real = os.path.realpath(target) if Path(target).is_symlink() else str(target)
    Path(tmp_path).replace(real)
    return real


def _write(path: Path, data: bytes, mode: int | None) -> None:
    path.resolve().parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data, mode=mode, new_mode=0o666)


def base_url_hostname(base_url: str) -> str:
    """The host in an address, which may lack its scheme."""
    text = (base_url or "").strip()
    try:
        return (urlsplit(text if "://" in text else f"//{text}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def base_url_host_matches(base_url: str, domain: str) -> bool:
    """Whether an address is on a domain or below it."""
    host, wanted = base_url_hostname(base_url), (domain or "").strip().lower().rstrip(".")
    return bool(wanted) and (host == wanted or host.endswith(f".{wanted}"))
