"""Plugin state: a folder for the data of a plugin, with a JSON document of named values in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from hermes.base.config.files import file_lock, read_document, write_private_document
from hermes.base.errors import ConfigError, PluginError
from hermes.plugins.compat.names import home_of
from hermes.plugins.loading.manifest import PluginManifest
from hermes.plugins.services import PluginHost

#: The most bytes that the values of one plugin may have together.
QUOTA_BYTES = 10 * 1024 * 1024
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_ODD = re.compile(r"[^A-Za-z0-9_.-]|^\.+")


def data_folder(host: PluginHost, manifest: PluginManifest) -> Path:
    """The folder for a plugin's data. It is made when something is stored."""
    return home_of(host) / "plugin-data" / _ODD.sub("_", manifest.key.replace("/", "__"))


def write_setting(host: PluginHost, plugin: str, parts: Sequence[str], value: Any) -> None:
    """Write one setting of a plugin into the configuration file of the home."""
    from hermes.base.config.edit import edit_config

    quoted = ".".join(f'"{part}"' for part in (plugin, "settings", *parts))
    edit_config(home_of(host), f"plugins.entries.{quoted}", value)


class PluginState:
    """Values of one plugin that outlive the process. Every process that uses the home sees the same."""

    def __init__(self, host: PluginHost, manifest: PluginManifest) -> None:
        self._host = host
        self._manifest = manifest

    @property
    def data_dir(self) -> Path:
        """A folder for files of the plugin's own, which it makes when it needs it."""
        return data_folder(self._host, self._manifest)

    @property
    def path(self) -> Path:
        """The document that holds the values."""
        return self.data_dir / "state.json"

    @property
    def quota_bytes(self) -> int:
        """The most bytes that the document may have."""
        return QUOTA_BYTES

    def get(self, key: str, default: Any = None) -> Any:
        """A value that was stored, else the default."""
        _check(key)
        return self._read().get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Store a value that JSON can hold. What others store at the same time stays."""
        _check(key)
        try:
            encoded = msgspec.json.decode(msgspec.json.encode({key: value}))
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"the state {key!r} is nothing that JSON can hold: {error}") from None
        with file_lock(self.path.with_name(".state.lock"), self._failed):
            values = {**self._read(), **encoded}
            size = len(msgspec.json.encode(values))
            if size > QUOTA_BYTES:
                raise ValueError(
                    f"the state of plugin {self._manifest.key!r} would have {size:,} of {QUOTA_BYTES:,} bytes"
                )
            write_private_document(self.path, values)

    def _read(self) -> dict[str, Any]:
        try:
            return read_document(self.path, dict[str, Any], "a JSON object", "move it away to start anew") or {}
        except ConfigError as error:
            raise RuntimeError(str(error)) from None

    def _failed(self, error: OSError) -> PluginError:
        return PluginError(f"{self.data_dir}: cannot be written: {error.strerror}")


def _check(key: object) -> None:
    if not isinstance(key, str) or not _KEY.fullmatch(key) or ".." in key:
        raise ValueError(
            f"{key!r} is no key of a state: 1 to 128 letters, digits, '_', '-', '.' and ':' are, without '..'"
        )
