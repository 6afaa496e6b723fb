"""Reads a home's configuration, once or again whenever the file changes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.base.config.files import config_path, write_atomically
from hermes.base.config.schema.sections import Config
from hermes.base.errors import ConfigError
from hermes.base.version import __version__

if TYPE_CHECKING:
    from hermes.base.config.check import Problem

#: No configuration is this long.
_MAX_BYTES = 4_000_000


class LoadedConfig(msgspec.Struct, frozen=True):
    """A configuration, and where it came from."""

    config: Config
    #: Problems that do not prevent a run.
    warnings: list[str]
    path: Path
    #: The document as it is written in the file; empty when there is none.
    raw: dict[str, Any]


def load_config(home: Path, *, ignore_user: bool = False, environ: Mapping[str, str] | None = None) -> LoadedConfig:
    """The configuration of a home: defaults, overlaid with ``config.yaml`` when there is one.

    Everything that is wrong with the file is in one ``ConfigError``; the file is never changed.
    """
    path = config_path(home)
    text = None if ignore_user else read_text(path)
    if text is None:
        return LoadedConfig(Config(), [], path, {})
    environ = os.environ if environ is None else environ
    document = cached_document(text, path)
    if document is not None:
        return load_document(document, path, environ, text)
    loaded = load_text(text, path, environ)
    cache_document(text, path, loaded.raw)
    return loaded


def load_text(text: str, path: Path, environ: Mapping[str, str]) -> LoadedConfig:
    """The configuration that a text holds; ``path`` names it in messages."""
    from hermes.base.config.document import parse_document

    return load_document(parse_document(text, str(path)), path, environ, text)


def load_document(raw: dict[str, Any], path: Path, environ: Mapping[str, str], text: str = "") -> LoadedConfig:
    """The configuration that plain data holds; with the ``text`` it came from, messages name the line."""
    from hermes.base.config.check import check
    from hermes.base.config.environment import expand_references
    from hermes.base.config.messages import dotted
    from hermes.base.config.schema.aliases import resolve_aliases

    warnings: list[str] = []
    expanded = expand_references(raw, environ, warnings.append)
    written, findings = check(expanded)
    if findings.problems:
        raise ConfigError(_report(findings.problems, text, path))
    warnings += [f"{dotted(key)} is not a known setting; {hint}".rstrip("; ") for key, hint in findings.unknown.items()]
    config = resolve_aliases(written, warnings)
    return LoadedConfig(config, [f"{path}: {warning}" for warning in warnings], path, raw)


def read_text(path: Path) -> str | None:
    """The text of the file, or None when there is no such file."""
    try:
        data = path.read_bytes() if path.stat().st_size <= _MAX_BYTES else None
    except FileNotFoundError:
        return None
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a directory; allowed: a YAML file. Move it away") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if data is None:
        raise ConfigError(f"{path}: larger than {_MAX_BYTES // 1_000_000} MB; this is not a configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8 text; save the file as UTF-8") from None


def _report(problems: list[Problem], text: str, path: Path) -> str:
    from hermes.base.config.document import line_of

    lines: list[str] = []
    for problem in problems:
        line = line_of(text, problem.path)
        lines.append(f"{problem} (line {line})" if line else str(problem))
    if len(lines) == 1:
        return f"{path}: {lines[0]}"
    return "\n  ".join([f"{path}: {len(lines)} settings cannot be used:", *lines])


# -- the cache of the parsed file: the YAML parser takes longer to import than a start can afford ---------------------
#    It lies beside the file, is as private and as protected as it, and counts only for the text it was made from.


class _Parsed(msgspec.Struct):
    version: str
    #: Itself rather than its digest: OpenSSL takes longer to load than all of this.
    text: str
    document: dict[str, Any]


_parsed = msgspec.json.Decoder(_Parsed)


def cached_document(text: str, path: Path) -> dict[str, Any] | None:
    """The document that the text of ``config.yaml`` holds, when it was parsed before."""
    try:
        parsed = _parsed.decode(_cache_path(path).read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return parsed.document if (parsed.version, parsed.text) == (__version__, text) else None


def cache_document(text: str, path: Path, document: dict[str, Any]) -> None:
    """Keep what a valid text holds. In a home that cannot be written it is parsed every time."""
    data = msgspec.json.encode(_Parsed(__version__, text, document))
    if repr(_parsed.decode(data).document) == repr(document):  # JSON has no NaN, and no key but text
        with contextlib.suppress(ConfigError, OSError):
            write_atomically(_cache_path(path), data.decode())


def _cache_path(path: Path) -> Path:
    # The name begins with that of the file, so that it is protected with it.
    return path.with_name(f"{path.name}.parsed")


# -- reloading -------------------------------------------------------------------------------------------------------

_Stamp = tuple[int, int, int, int]


class FreshConfig:
    """Reloads the configuration when its file has changed; checking costs one ``stat``."""

    def __init__(self, home: Path, config: Config, env: Mapping[str, str], *, follow: bool = True) -> None:
        """``config`` is what the process started with. Without ``follow``, the file is not read again."""
        self._home = home
        self._config = config
        self._env = env
        self._follow = follow
        self._seen = _stamp(home)

    def current(self) -> Config:
        """The configuration. Raises ``ConfigError``, until it is repaired, when the file cannot be used."""
        stamp = _stamp(self._home) if self._follow else self._seen
        if stamp != self._seen:
            self._config = load_config(self._home, environ=self._env).config
            # Taken before the file was read: what was written meanwhile is seen the next time.
            self._seen = stamp
        return self._config


def _stamp(home: Path) -> _Stamp | None:
    """A stamp that changes whenever the file does."""
    try:
        found = config_path(home).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
