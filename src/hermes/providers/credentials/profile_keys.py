"""The pool for work that must use one stored credential by its name."""

from __future__ import annotations

from hermes.errors import ProviderError
from hermes.providers.credentials.pool import CredentialPool
from hermes.providers.endpoint import Endpoint


class ProfileKeys:
    """Lends out the credential of that name and no other. Raises at once when the provider has none of that name."""

    def __init__(self, pool: CredentialPool, provider: str, profile: str) -> None:
        pool.find(provider, profile)
        self._pool = pool
        self._provider = provider
        self._profile = profile

    def take(self, endpoint: Endpoint) -> Endpoint | None:
        """The endpoint with that credential; ``None`` for another provider, whose credential was not asked for."""
        if endpoint.provider != self._provider:
            return None
        return self._pool.take_profile(endpoint, self._profile)

    def report(self, endpoint: Endpoint, error: ProviderError | None) -> None:
        """Give the key back, with what became of the request."""
        self._pool.report(endpoint, error)

    def explain(self, endpoint: Endpoint) -> str:
        """Why ``take`` had nothing to give, and what to do, in one line."""
        if endpoint.provider == self._provider:
            return self._pool.explain(endpoint)
        return f"{endpoint.provider} is not asked: the credential {self._profile!r} is one of {self._provider}"
