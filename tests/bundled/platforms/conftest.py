"""The HTTP client that platforms are given, and a model for whole gateways."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from hermes.base.http.client import HttpClient
from hermes.plugins.http import PluginHttp
from support.gateway_rig import SwitchedProvider


@pytest.fixture
def http() -> Generator[PluginHttp]:
    client = HttpClient()
    yield PluginHttp(client)
    client.close()


@pytest.fixture
def provider() -> Generator[SwitchedProvider]:
    with SwitchedProvider() as provider:
        yield provider
