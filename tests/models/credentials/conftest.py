"""Fixtures for the tests of credentials: a file, keys in it, and an authorization server that is always closed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from hermes.base.http.client import HttpClient
from hermes.models.credentials.credential import Credential
from hermes.models.credentials.store import AuthFile, add_key
from support.authorization_server import AuthorizationServer, authorization_server


@pytest.fixture
def file(home: Path) -> AuthFile:
    return AuthFile(home)


@pytest.fixture
def add_keys(file: AuthFile) -> Callable[..., list[Credential]]:
    """Stores keys named after their labels."""

    def add(*labels: str, provider: str = "lab") -> list[Credential]:
        return [add_key(file, provider, f"sk-of-{label}-0123456789", label) for label in labels]

    return add


@pytest.fixture
def http() -> Generator[HttpClient]:
    """Authorization servers are asked in the caller's thread."""
    http = HttpClient()
    yield http
    http.close()


@pytest.fixture
def server() -> Generator[AuthorizationServer]:
    with authorization_server() as server:
        yield server
