"""The stored keys of a home for whoever sends requests. Nothing is loaded before there is something stored."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.config.sections import Config, OAuthConfig
from hermes.errors import CredentialError, ProviderError
from hermes.models.endpoint import Endpoint
from hermes.sanitize import Redactor

if TYPE_CHECKING:
    from hermes.models.credentials.credential import Credential
    from hermes.models.credentials.ledger import Ledger
    from hermes.models.credentials.pool import CredentialPool
    from hermes.models.driver import Driver


class HomeKeys:
    """The pool of a home, opened with the first request after ``auth.json`` appeared."""

    def __init__(self, home: Path, config: Config, driver: Driver, redactor: Redactor) -> None:
        self._home = home
        self._strategies = config.credential_pool_strategies
        self._sign_ins = sign_in_settings(config)
        self._driver = driver
        self._redactor = redactor
        self._path = home / "auth.json"
        self._pool: CredentialPool | None = None
        self._lock = threading.Lock()

    def take(self, endpoint: Endpoint) -> Endpoint | None:
        """The endpoint with a key to use now; ``None`` when all of its keys rest. Give it back with ``report``."""
        pool = self._open() if endpoint.credential else self._opened()
        return endpoint if pool is None else pool.take(endpoint)

    def report(self, endpoint: Endpoint, error: ProviderError | None) -> None:
        """Give a key back, with what became of the request."""
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
        """Whether keys rest that are good."""
        return self._open().comes_back(endpoint)

    def explain(self, endpoint: Endpoint) -> str:
        """Why ``take`` had nothing to give, and what to do, in one line."""
        return self._open().explain(endpoint)

    @property
    def notices(self) -> list[str]:
        """What the person should know about the file, one line each."""
        pool = self._opened()
        if pool is None:
            return []
        try:
            pool.file.pool()
        except CredentialError as error:
            return [str(error)]
        return list(pool.file.notices)

    def close(self) -> None:
        """Write what is not written yet."""
        if self._pool is not None:
            self._pool.close()

    def renew(self, credential: Credential, ledger: Ledger) -> Credential:
        """A new token for a sign-in; what that takes is loaded when one needs it, and most homes have none."""
        from hermes.models.credentials.renewal import Renewer

        return Renewer(self._home, self._sign_ins, self._driver).renew(credential, ledger)

    def _opened(self) -> CredentialPool | None:
        if self._pool is None and not self._path.exists():
            return None
        return self._open()

    def _open(self) -> CredentialPool:
        with self._lock:
            if self._pool is None:
                from hermes.models.credentials.auth_file import AuthFile
                from hermes.models.credentials.pool import CredentialPool

                self._pool = CredentialPool(
                    AuthFile(self._home), strategies=self._strategies, renewal=self, redactor=self._redactor
                )
            return self._pool


def sign_in_settings(config: Config) -> dict[str, OAuthConfig]:
    """How to sign in at the providers that are set up for it."""
    return {name: named.oauth for name, named in config.providers.items() if named.oauth is not None}
