"""Where the keys of endpoints come from when there may be several."""

from __future__ import annotations

from typing import Protocol

from hermes.errors import ProviderError
from hermes.models.endpoint import Endpoint


class KeyRing(Protocol):
    """Lends out keys. Every endpoint that ``take`` gave goes back through ``report``, exactly once."""

    def take(self, endpoint: Endpoint) -> Endpoint | None:
        """The endpoint with a key to use now; ``None`` when all of its keys rest."""
        ...

    def report(self, endpoint: Endpoint, error: ProviderError | None) -> None:
        """Give the key back, with what became of the request; a key that was refused or used up rests from now on."""
        ...

    def comes_back(self, endpoint: Endpoint) -> bool:
        """When ``take`` had nothing to give: whether waiting helps, since keys rest that are good."""
        ...

    def explain(self, endpoint: Endpoint) -> str:
        """Why ``take`` had nothing to give, and what to do, in one line."""
        ...


class StoredKeys(KeyRing, Protocol):
    """A key ring that knows for whom it has something."""

    def has(self, provider: str) -> bool:
        """Whether anything is stored for a provider."""
        ...

    def require(self, provider: str, name: str) -> None:
        """Raises ``CredentialError`` when no credential of that name is stored for a provider."""
        ...
