"""The stored keys of a home, for those who send requests. Nothing is loaded before something is stored."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.config.schema.sections import Config, OAuthConfig
from hermes.base.errors import CredentialError, ProviderError
from hermes.base.sanitize import Redactor
from hermes.models.endpoint import Endpoint

if TYPE_CHECKING:
    from hermes.base.http.client import HttpClient
    from hermes.models.credentials.pool import CredentialPool


class HomeKeys:
    """The credential pool of a home, opened with the first request after ``auth.json`` appeared."""

    def __init__(self, home: Path, config: Config, http: HttpClient, redactor: Redactor) -> None:
        self._home = home
        self._strategies = config.credential_pool_strategies
        self._tokens = sign_in_settings(config)
        self._http = http
        self._redactor = redactor
        self._path = str(home / "auth.json")
        self._pool: CredentialPool | None = None
        self._lock = threading.Lock()

    def take(self, endpoint: Endpoint, before_waiting: Callable[[], object] | None = None) -> Endpoint | None:
        """The endpoint with a key to use now; ``None`` while all keys are cooling down. Return it with ``report``."""
        pool = self._open() if endpoint.credential else self._opened()
        taken = endpoint if pool is None else pool.take(endpoint, before_waiting)
        return None if taken is not None and _lacks_key(taken) else taken

    def report(self, endpoint: Endpoint, error: ProviderError | None) -> None:
        """Return a key with the outcome of the request."""
        if self._pool is not None:
            self._pool.report(endpoint, error)

    def require(self, provider: str, name: str) -> None:
        """Raises ``CredentialError`` when no credential of that name is stored for a provider."""
        self._open().find(provider, name)

    def has(self, provider: str) -> bool:
        """Whether anything is stored for a provider."""
        pool = self._opened()
        return pool is not None and pool.has(provider)

    def providers(self) -> list[str]:
        """The providers for which something is stored."""
        pool = self._opened()
        return [] if pool is None else pool.file.providers()

    def comes_back(self, endpoint: Endpoint) -> bool:
        """Whether valid keys are only cooling down."""
        return self._open().comes_back(endpoint) if self._has_some(endpoint) else False

    def explain(self, endpoint: Endpoint) -> str:
        """Why ``take`` returned ``None``, and what to do, in one line."""
        if self._has_some(endpoint):
            return self._open().explain(endpoint)
        names = " or ".join(endpoint.key_variables)
        return (
            f"{endpoint.provider}: no key is set up; put {names} into the environment or into {self._home / '.env'}, "
            f"or store one with 'hermes auth add {endpoint.provider}'"
        )

    def _has_some(self, endpoint: Endpoint) -> bool:
        """Whether a key is named or stored, be it one that cannot be used now."""
        return bool(endpoint.credential) or not _lacks_key(endpoint) or self.has(endpoint.provider)

    @property
    def notices(self) -> list[str]:
        """Notices about the file for the user, one line each."""
        pool = self._opened()
        if pool is None:
            return []
        try:
            pool.file.pool()
        except CredentialError as error:
            return [str(error)]
        return list(pool.file.notices)

    def close(self) -> None:
        """Write the pending changes."""
        if self._pool is not None:
            self._pool.close()

    def _opened(self) -> CredentialPool | None:
        if self._pool is None and not os.access(self._path, os.F_OK):
            return None
        return self._open()

    def _open(self) -> CredentialPool:
        with self._lock:
            if self._pool is None:
                from hermes.models.credentials.pool import CredentialPool
                from hermes.models.credentials.refresh import refresh_sign_in
                from hermes.models.credentials.store import AuthFile

                refresh = partial(refresh_sign_in, configured=self._tokens, http=self._http)
                self._pool = CredentialPool(
                    AuthFile(self._home), strategies=self._strategies, refresh=refresh, redactor=self._redactor
                )
            return self._pool


#: Headers of the user's own that do instead of a key.
_KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key"})


def _lacks_key(endpoint: Endpoint) -> bool:
    """Whether the server is known to want a key, and there is none to send."""
    if endpoint.api_key or not endpoint.key_variables:
        return False
    return not any(name.lower() in _KEY_HEADERS for name in endpoint.extra_headers)


def sign_in_settings(config: Config) -> dict[str, OAuthConfig]:
    """The OAuth settings of the providers that have any."""
    return {name: named.oauth for name, named in config.providers.items() if named.oauth is not None}
