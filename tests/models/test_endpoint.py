"""Where a model lives."""

from __future__ import annotations

import pytest

from hermes.base.errors import ConfigError
from hermes.models.endpoint import Endpoint


def test_operations_are_below_the_base_url() -> None:
    assert Endpoint("http://h:1/v1/", "m").url("/chat/completions") == "http://h:1/v1/chat/completions"
    assert Endpoint("https://h", "m").url("/models") == "https://h/models"
    azure = Endpoint("https://h/openai/d?api-version=1", "m")
    assert azure.url("/chat/completions") == "https://h/openai/d/chat/completions?api-version=1"


def test_secrets_stay_out_of_the_repr() -> None:
    endpoint = Endpoint("http://h", "m", api_key="sk-secret", extra_headers={"x-key": "other-secret"})
    assert "secret" not in repr(endpoint)
    assert "http://h" in repr(endpoint)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "must start with http"),
        ("localhost:8000/v1", "must start with http"),
        ("ftp://h/v1", "must start with http"),
        ("http://", "names no usable host"),
        ("http:///v1", "names no usable host"),
        ("http://h /v1", "names no usable host"),
        ("http://h:99999/v1", "cannot be parsed"),
        ("http://h:port/v1", "cannot be parsed"),
        ("http://[::1/v1", "cannot be parsed"),
        ("https://user:hunter2@h/v1", "user name or password"),
    ],
)
def test_a_bad_url_says_what_is_wrong(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        Endpoint(url, "m")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-abc\ndef", "sk-ключ", "sk\r"])
def test_a_key_that_cannot_be_a_header_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError, match="cannot be sent") as caught:
        Endpoint("http://h", "m", api_key=key)
    assert key not in str(caught.value)
