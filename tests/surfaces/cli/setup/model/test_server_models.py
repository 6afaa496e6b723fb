"""The list of models of a server: one document, collected up to a size, and read when it has ended."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from hermes.base.errors import ProviderError
from hermes.models.driver import Driver
from hermes.models.endpoint import Endpoint
from hermes.surfaces.cli.setup.model import server_models
from hermes.surfaces.cli.setup.model.server_models import ModelList, list_models
from support.doctor_rig import answering

ENDPOINT = Endpoint("http://h/v1", "m", "demo")
TOO_DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture
def driver() -> Generator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


def test_pieces_are_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_models, "_LONGEST_LIST", 7)
    parser = ModelList().parser(ENDPOINT, streaming=False)
    for piece in (b'["a', b"", b'bc"]'):
        assert not parser.feed(piece)
    assert not parser.done
    assert parser.finish()["models"] == ["abc"]
    with pytest.raises(ProviderError, match="the list of models does not end") as caught:
        parser.feed(b" ")
    assert caught.value.reason == "malformed"


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'"\xff"', b"<html>", TOO_DEEP])
def test_what_is_no_json_is_no_list(body: bytes) -> None:
    parser = ModelList().parser(ENDPOINT, streaming=False)
    parser.feed(body)
    with pytest.raises(ProviderError, match="no list of models"):
        parser.finish()


@pytest.mark.parametrize(
    ("body", "models"), [(b'{"data": [{"id": "a"}, "b", 1]}', ["a", "b"]), (TOO_DEEP, None), (b"{}", None)]
)
def test_a_list_of_models(body: bytes, models: list[str] | None, driver: Driver) -> None:
    with answering(lambda _method, _path: (200, body)) as (base_url, requests):
        assert list_models(driver, Endpoint(base_url, "m", "demo")) == models
        assert requests == ["GET /v1/models"]
