"""Fixtures for the tests against the official SDKs: their clients and our driver, always closed."""

from __future__ import annotations

from collections.abc import Generator

import openai
import pytest

from hermes.models.driver import Driver
from support.sdk_types import KEY


@pytest.fixture
def driver() -> Generator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def openai_sdk() -> Generator[openai.OpenAI]:
    with openai.OpenAI(base_url="http://127.0.0.1", api_key=KEY, max_retries=0) as client:
        yield client
