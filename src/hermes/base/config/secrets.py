"""The secrets of a home, by name: values of secret settings, of ``.env``, of the environment and of ``auth.json``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from hermes.base.config.environment import env_path, load_env_file
from hermes.base.config.files import config_path
from hermes.base.config.load import load_config
from hermes.base.config.schema.sections import Config
from hermes.base.errors import ConfigError
from hermes.base.sanitize import Redactor, is_secret_key

#: Shorter values cannot be distinguished from ordinary words.
MIN_SECRET_CHARS = 8
#: An ``.env`` value of this length is a secret unless it is plain, whatever its name.
_MIN_UNNAMED_CHARS = 12

#: The tokens of single callers, of A2A and of the OpenAI-compatible API, without any configuration.
_TOKEN_VARIABLES = frozenset({"HERMES_A2A_TOKEN", "API_SERVER_KEY"})
_HEADERS = ("extra_headers", "headers")
#: Settings that name the variable with a secret, not the secret.
_NAMING = ("key_env", "token_env", "secret_env")
#: What people write where a server wants some key and checks none.
_PLACEHOLDERS = frozenset(
    {"not-needed", "not_needed", "not-required", "no-key-required", "no-api-key", "dummy-key", "placeholder"}
    | {"your-api-key", "your_api_key", "changeme"}
)
# These are compiled when they are first used, and kept by ``re``: most starts need none of them.
#: A line of a configuration that may not parse as a whole.
_PAIR = r"""^[\s\-]*["']?([\w.-]+)["']?\s*[:=]\s*(.+)$"""
_REFERENCE = r"\$\{?\w+\}?"
_NUMBER = r"[\d.,:+eETZ_-]+"
_PATH = r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\][\w./\\ ~@:+-]*"
_PART = r"[a-z]{1,20}|[A-Z]{1,20}|[A-Z][a-z]{1,19}|\d{1,8}|\w{1,3}"
_SEPARATORS = r"[-_. ,;:/@=]+"
_LONG_TOKEN = r"(?=[^/\\]*\d)(?=[^/\\]*[a-z])(?=[^/\\]*[A-Z])[^/\\]{20,}"
#: No file of credentials is larger.
_MAX_AUTH_BYTES = 4_000_000


def home_secrets(
    home: Path, config: Config, environ: Mapping[str, str], *, env_file: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Every secret of the home by name: the variable, the setting, or the provider whose credential it is.

    ``env_file`` is the content of ``.env``, when the caller has read it already.
    """
    found = _Found()
    settings = cast("dict[str, Any]", msgspec.to_builtins(config))
    named = {*_texts_named(_NAMING.__contains__, settings), *_TOKEN_VARIABLES}
    for name, value in (_env_values(home) if env_file is None else env_file).items():
        if name in named or is_secret_key(name) or is_unnamed_secret(value):
            found.add(name, value)
        found.add_address(name, value)
    for name, value in environ.items():
        if name in named or (is_secret_key(name) and not _is_place(value)):
            found.add(name, value)
        found.add_address(name, f"http://{value}" if name.lower().endswith("_proxy") and "://" not in value else value)
    found.add_settings(settings)
    for name, value in _stored_credentials(home):
        found.add(name, value)
    return found.by_name


def home_redactor(home: Path, environ: Mapping[str, str] | None = None) -> Redactor:
    """A redactor that knows every secret of the home, for commands that open no host.

    In a configuration that cannot be used, the text beside a secret's name counts as one.
    """
    environ = os.environ if environ is None else environ
    env_file = _env_values(home)
    try:
        config = load_config(home, environ={**environ, **env_file}).config
    except ConfigError:
        config = Config()
    redactor = Redactor(home_secrets(home, config, environ, env_file=env_file))
    redactor.add_secrets(dict(_written_secrets(home)))
    return redactor


def _written_secrets(home: Path) -> Iterator[tuple[str, str]]:
    """Values beside the names of secrets in the files, also where these cannot be parsed."""
    for path in (config_path(home), env_path(home)):
        try:
            text = path.read_bytes()[:1_000_000].decode("utf-8", "replace")
        except OSError:
            continue
        for name, value in re.findall(_PAIR, text, re.MULTILINE):
            value = value.strip().strip("'\"*&")
            if is_secret_key(name) and "${" not in value:
                yield name, value
                yield f"{name}.2", value.partition(" #")[0].rstrip().strip("'\"")
            yield from ((f"{name}.3", secret) for secret in _secrets_of_address(value))


def is_unnamed_secret(value: str) -> bool:
    """Whether a value is a secret although neither its name nor a setting says so: long, and nothing plain."""
    return len(value) >= _MIN_UNNAMED_CHARS and not is_plain(value)


def is_plain(value: str) -> bool:
    """Whether a value is ordinary text: words, a number, a path, a URL without userinfo, a reference."""
    if _is_place(value) or re.fullmatch(_NUMBER, value):
        return True
    return "://" not in value and all(re.fullmatch(_PART, part) for part in re.split(_SEPARATORS, value) if part)


def _is_place(value: str) -> bool:
    """Whether a value says where something is: a path, a URL without userinfo, the name of a variable."""
    if "://" in value:
        return not any(_secrets_of_address(value))
    if re.fullmatch(_PATH, value):
        return not any(re.fullmatch(_LONG_TOKEN, part) for part in re.split(r"[/\\]", value))
    return re.fullmatch(_REFERENCE, value) is not None


class _Found:
    """The secrets found so far. The first name of a value stays."""

    def __init__(self) -> None:
        self.by_name: dict[str, str] = {}
        self._values: set[str] = set()

    def add(self, name: str, value: str) -> None:
        value = value.strip()
        if len(value) < MIN_SECRET_CHARS or value in self._values or value.lower() in _PLACEHOLDERS or "${" in value:
            return
        self._values.add(value)
        unique, number = name, 1
        while unique in self.by_name:
            number += 1
            unique = f"{name}.{number}"
        self.by_name[unique] = value
        scheme, _, credentials = value.partition(" ")
        if credentials and scheme.lower() in ("bearer", "basic", "token", "digest"):
            self.add(name, credentials)

    def add_address(self, name: str, value: str) -> None:
        for secret in _secrets_of_address(value):
            self.add(name, secret)

    def add_settings(self, value: Any, path: str = "", *, is_secret: bool = False, is_header: bool = False) -> None:
        if isinstance(value, dict):
            for key, item in cast("dict[str, Any]", value).items():
                if not item or isinstance(item, int | float):
                    continue  # most settings: nothing to hide, and their names need no look
                self.add_settings(
                    item,
                    f"{path}.{key}" if path else str(key),
                    is_secret=is_secret or is_secret_key(str(key)),
                    is_header=is_header or key in _HEADERS,
                )
        elif isinstance(value, list):
            for item in cast("list[Any]", value):
                self.add_settings(item, path, is_secret=is_secret, is_header=is_header)
        elif isinstance(value, str):
            if is_secret or (is_header and is_unnamed_secret(value)):
                self.add(path, value)
            self.add_address(path, value)


def _texts_named(is_wanted: Callable[[str], bool], value: Any) -> Iterator[str]:
    """The texts in a document whose names are wanted."""
    if isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            if isinstance(item, str) and is_wanted(name):
                yield item
            else:
                yield from _texts_named(is_wanted, item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts_named(is_wanted, item)


def _secrets_of_address(address: str) -> Iterator[str]:
    """The userinfo of a URL (its password, or the name when that is all there is) and its secret parameters.

    The name alone may be a token on the web; in the address of a database it is only a name.
    """
    if "://" not in address:
        return
    try:
        parts = urlsplit(address)
        name = "" if parts.scheme in ("postgresql", "postgres") else parts.username
        login = parts.password or name or ""
        parameters = parse_qsl(parts.query)
    except ValueError:
        return
    yield from (secret for secret in dict.fromkeys((login, unquote(login))) if len(secret) >= MIN_SECRET_CHARS)
    yield from (value for name, value in parameters if is_secret_key(name) or name.lower() in ("key", "sig"))


def _env_values(home: Path) -> dict[str, str]:
    try:
        return load_env_file(home, warnings=[])
    except ConfigError:
        return {}  # what cannot be read is not in use either


def _stored_credentials(home: Path) -> Iterator[tuple[str, str]]:
    """The keys and tokens in ``auth.json``, each named after its provider."""
    try:
        with (home / "auth.json").open("rb") as file:
            document: Any = msgspec.json.decode(file.read(_MAX_AUTH_BYTES) or b"{}")
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return
    pool: Any = cast("dict[str, Any]", document).get("credential_pool") if isinstance(document, dict) else None
    for provider, records in cast("dict[str, Any]", pool).items() if isinstance(pool, dict) else ():
        yield from ((f"auth.json:{provider}", value) for value in _texts_named(is_secret_key, records))
