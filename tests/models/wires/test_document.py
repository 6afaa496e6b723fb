"""Answers that are one document: collected up to a size, and read when they have ended."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from hermes.base.errors import ProviderError
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint
from hermes.models.wires.document import DocumentParser, decoded
from hermes.surfaces.cli.setup.model.server_models import list_models
from support.doctor_rig import answering

ENDPOINT = Endpoint("http://h/v1", "m", "demo")
TOO_DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture
def driver() -> Generator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


def test_pieces_are_read_as_one() -> None:
    parser = DocumentParser(ENDPOINT, lambda body: {"body": body}, name="the list", longest=6)
    for piece in (b"ab", b"", b"cdef"):
        assert not parser.feed(piece)
    assert not parser.done
    assert parser.finish()["body"] == b"abcdef"
    with pytest.raises(ProviderError, match="the list does not end") as caught:
        parser.feed(b"g")
    assert caught.value.reason == "malformed"


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'"\xff"', b"<html>", TOO_DEEP])
def test_what_is_no_json_is_nothing(body: bytes) -> None:
    assert decoded(body) is None


def test_json_is_read() -> None:
    assert decoded(b'{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize(
    ("body", "models"), [(b'{"data": [{"id": "a"}, "b", 1]}', ["a", "b"]), (TOO_DEEP, None), (b"{}", None)]
)
def test_a_list_of_models(body: bytes, models: list[str] | None, driver: Driver) -> None:
    with answering(lambda _method, _path: (200, body)) as (base_url, requests):
        assert list_models(driver, Endpoint(base_url, "m", "demo")) == models
        assert requests == ["GET /v1/models"]
