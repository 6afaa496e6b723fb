"""The HTTP client that platforms are given."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from hermes.http.client import HttpClient
from hermes.plugins.http import PluginHttp


@pytest.fixture
def http() -> Generator[PluginHttp]:
    client = HttpClient()
    yield PluginHttp(client)
    client.close()
