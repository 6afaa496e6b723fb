"""The settings of one platform: its block of the configuration, and variables of the environment, which win over it.

A platform declares them as the fields of a dataclass. A field without one of the helpers below is read by its type:
``str`` is a text, ``bool`` a switch, ``tuple[str, ...]`` a list of texts.
``read`` in its metadata is a function for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

from hermes.base.errors import ConfigError

if TYPE_CHECKING:
    import ssl

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
#: Servers that a password may be sent to without TLS.
LOOPBACK = ("localhost", "127.0.0.1", "::1")

#: Reads a field, given its name and the fields that were read before it.
FieldReader = Callable[["SettingsReader", str, Mapping[str, Any]], Any]


class SettingsReader:
    """Reads settings by name. What has the wrong form raises a ``ConfigError`` that names the setting.

    The variable of a setting is its name in capitals behind that of the platform: ``nick`` of ``irc`` is ``IRC_NICK``.
    A secret is read from its variable alone, so that no file of settings has to contain one.
    """

    def __init__(
        self, platform: str, block: Mapping[str, Any] | None, env: Mapping[str, str] | None = None, token: str = ""
    ) -> None:
        """``token`` is that of ``gateway.platforms.NAME.token``."""
        self.platform = platform
        self.token = token.strip()
        self._block = block or {}
        self._env = os.environ if env is None else env

    def variable(self, name: str) -> str:
        """The environment variable of a setting."""
        return f"{self.platform}_{name}".upper()

    def value(self, name: str) -> Any:
        """A setting in whatever form it has; ``None`` when it is not set."""
        return self.environment(self.variable(name)) or self._block.get(name)

    def secret(self, name: str) -> str:
        """A secret from its variable; empty when there is none. Raises when the configuration has it in the clear."""
        if self._block.get(name):
            raise self.error(name, f"is a secret: set the variable {self.variable(name)} instead (hermes config set)")
        return self.environment(self.variable(name))

    def environment(self, variable: str) -> str:
        """A variable of the environment; empty when it is not set."""
        return self._env.get(variable, "").strip()

    def text(self, name: str, default: str = "") -> str:
        """A text without line breaks."""
        found = self.value(name)
        if found is None:
            return default
        if not isinstance(found, str | int | float) or isinstance(found, bool):
            raise self.error(name, f"is {found!r}; it must be text")
        text = str(found).strip()
        if re.search("[\x00\r\n]", text):
            raise self.error(name, "has a line break in it")
        return text or default

    def choice(self, name: str, *allowed: str) -> str:
        """One of some words; the first is the default."""
        found = self.text(name, allowed[0]).lower()
        if found not in allowed:
            raise self.error(name, f"is {found!r}; allowed are {', '.join(allowed)}")
        return found

    def number(self, name: str, default: float, least: float, most: float) -> float:
        """A number within bounds."""
        found = self.value(name)
        if found is None:
            return default
        try:
            number = float("x" if isinstance(found, bool) else found)
        except (TypeError, ValueError):
            raise self.error(name, f"is {found!r}; it must be a number") from None
        if not least <= number <= most:
            raise self.error(name, f"is {number:g}; it must be between {least:g} and {most:g}")
        return number

    def flag(self, name: str, default: bool = False) -> bool:
        """On or off."""
        found = self.value(name)
        if found is None or isinstance(found, bool):
            return default if found is None else found
        word = str(found).strip().lower()
        if word not in _TRUE | _FALSE:
            raise self.error(name, f"is {found!r}; it must be true or false")
        return word in _TRUE

    def names(self, name: str) -> tuple[str, ...]:
        """A list of texts; in a variable they are separated by commas."""
        found = self.value(name)
        if found is None:
            return ()
        if isinstance(found, str):
            found = found.split(",")
        if not isinstance(found, list) or not all(isinstance(one, str | int) for one in cast("list[Any]", found)):
            raise self.error(name, f"is {found!r}; it must be a list of texts")
        return tuple(text for one in cast("list[str | int]", found) if (text := str(one).strip()))

    def mapping(self, name: str) -> dict[str, Any]:
        """A mapping, which only the configuration can have."""
        found = self._block.get(name)
        if found is None:
            return {}
        if not isinstance(found, dict) or not all(isinstance(key, str) for key in cast("dict[Any, Any]", found)):
            raise self.error(name, "must be a mapping")
        return cast("dict[str, Any]", found)

    def url(self, name: str, default: str = "") -> str:
        """An http or https address without a slash at its end."""
        found = self.text(name, default).rstrip("/")
        if found and not re.fullmatch(r"https?://[^/\s@]+(/\S*)?", found):
            raise self.error(name, "must be an address that begins with http:// or https:// and has no password in it")
        return found

    def error(self, name: str, problem: str) -> ConfigError:
        """The error for a setting, to be raised."""
        return ConfigError(f"gateway.platforms.{self.platform}.extra.{name} (or {self.variable(name)}) {problem}")


# -- declarations ----------------------------------------------------------------------------------------------------


def text(default: str = "", *, other: str = "", missing: str = "", is_lower: bool = False) -> Any:
    """A text. ``other`` is another name of it; ``missing`` is the error when it is not set."""

    def read(given: SettingsReader, name: str, _read: Mapping[str, Any]) -> str:
        found = given.text(name) or (given.text(other) if other else "") or default
        return found.lower() if is_lower else found

    return _declared(read, default, missing)


def names(*, other: str = "") -> Any:
    """A list of texts. ``other`` is another name of it."""
    return _declared(lambda given, name, _read: given.names(name) or (given.names(other) if other else ()), ())


def secret(*, missing: str = "") -> Any:
    """A secret, which only a variable can have."""
    return _declared(lambda given, name, _read: given.secret(name), "", missing, is_shown=False)


def token(*, missing: str = "") -> Any:
    """A secret that may also be the platform's ``token`` in the configuration."""
    return _declared(lambda given, name, _read: given.secret(name) or given.token, "", missing, is_shown=False)


def url(default: str = "", *, missing: str = "") -> Any:
    """An http or https address."""
    return _declared(lambda given, name, _read: given.url(name, default), default, missing)


def choice(*allowed: str) -> Any:
    """One of some words; the first is the default."""
    return _declared(lambda given, name, _read: given.choice(name, *allowed), allowed[0])


def number(default: float, least: float, most: float) -> Any:
    """A number within bounds."""
    return _declared(lambda given, name, _read: given.number(name, default, least, most), default)


def whole_number(default: int, least: int, most: int) -> Any:
    """A whole number within bounds."""
    return _declared(lambda given, name, _read: int(given.number(name, default, least, most)), default)


def tcp_port(by: str, defaults: Mapping[Any, int]) -> Any:
    """A TCP port, whose default depends on the field ``by``."""
    return _declared(lambda given, name, read: int(given.number(name, defaults[read[by]], 1, 65535)), 0)


def _declared(read: FieldReader, default: Any, missing: str = "", *, is_shown: bool = True) -> Any:
    return field(default=default, repr=is_shown, metadata={"read": read, "missing": missing})


#: How a field without a declaration of its own is read, given its name and default.
_BY_TYPE: dict[str, Callable[[SettingsReader, str, Any], Any]] = {
    "str": lambda given, name, default: given.text(name, default),
    "bool": lambda given, name, default: given.flag(name, default),
    "tuple[str, ...]": lambda given, name, _default: given.names(name),
}


@dataclass(frozen=True)
class PlatformSettings:
    """Base of the settings of a platform."""

    platform: ClassVar[str]

    @classmethod
    def read(cls, block: Mapping[str, Any] | None, env: Mapping[str, str] | None = None, token: str = "") -> Self:
        """The settings, checked. Raises ``ConfigError``."""
        given = SettingsReader(cls.platform, block, env, token)
        read: dict[str, Any] = {}
        for one in fields(cls):
            read[one.name] = _read_field(one, given, read)
        settings = cls(**read)
        settings.check(given)
        return settings

    def check(self, given: SettingsReader) -> None:
        """Raise ``given.error`` for settings that do not go together."""


def _read_field(one: Field[Any], given: SettingsReader, read: Mapping[str, Any]) -> Any:
    reader: FieldReader | None = one.metadata.get("read")
    if reader is None:
        return _BY_TYPE[str(one.type)](given, one.name, one.default)
    value = reader(given, one.name, read)
    missing: str = one.metadata.get("missing", "")
    if missing and not value:
        raise given.error(one.name, missing.replace("{variable}", given.variable(one.name)))
    return value


def tls_context(ca_file: str = "", certificate: str = "") -> ssl.SSLContext:
    """TLS for a protocol other than HTTP: host names and certificates are checked.

    ``ca_file`` names other authorities than the system's, ``certificate`` a PEM file with our own certificate and key.
    """
    import ssl

    from hermes.base.http.tls import Certificates

    context = Certificates().context(ca_file)
    context.set_alpn_protocols([])
    if certificate:
        try:
            context.load_cert_chain(Path(certificate).expanduser())
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"{certificate} has no usable certificate and key: {error.strerror}") from None
    return context
