"""Work that names its own provider, model or stored credential: it gets exactly that, or an error."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from hermes.base.config import Config
from hermes.base.config.schema.sections import FallbackConfig, ModelConfig, ModelProviderConfig
from hermes.base.errors import ConfigError
from hermes.base.scope import Interrupt
from hermes.host import Host
from hermes.models.credentials.store import AuthFile, add_key
from hermes.models.endpoint import Endpoint
from hermes.models.retry import Send, retry

CONFIG = Config(
    model=ModelConfig(provider="lab", default="big"),
    providers={
        "lab": ModelProviderConfig(base_url="http://127.0.0.1:9/v1", api_key="sk-configured"),
        "spare": ModelProviderConfig(base_url="http://127.0.0.2:9/v1", model="usual"),
    },
    fallback_providers=[FallbackConfig(provider="spare", model="usual")],
)


def places(endpoints: Sequence[Endpoint]) -> list[str]:
    return [f"{one.provider}:{one.model}" for one in endpoints]


def key_for(host: Host, endpoints: Sequence[Endpoint]) -> str:
    """The key that a request would carry."""

    def answer(send: Send) -> str:
        return send.endpoint.api_key

    return retry(host.models.attempts(endpoints, 0), Interrupt(), answer)


@pytest.fixture
def host(home: Path, workdir: Path) -> Generator[Host]:
    for name in ("work", "home"):
        add_key(AuthFile(home), "lab", f"sk-of-{name}-0123456789", name)
    with Host(home, CONFIG, cwd=workdir, env={}) as made:
        yield made


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("", "", ["lab:big", "spare:usual"]),
        ("", "small", ["lab:small", "spare:usual"]),
        ("spare", "", ["spare:usual", "spare:usual"]),
        ("spare", "other", ["spare:other", "spare:usual"]),
    ],
)
def test_what_is_left_open_is_as_configured(host: Host, provider: str, model: str, expected: list[str]) -> None:
    assert places(host.models.chosen(provider=provider, model=model)) == expected


def test_what_is_left_open_is_as_in_the_conversation(host: Host) -> None:
    main = host.models.chosen(model="picked")
    assert places(host.models.chosen(main=main)) == ["lab:picked", "spare:usual"]
    assert places(host.models.chosen(provider="lab", main=main)) == ["lab:picked", "spare:usual"]
    assert places(host.models.chosen(model="small", main=main)) == ["lab:small", "spare:usual"]
    assert places(host.models.chosen(provider="spare", main=main)) == ["spare:usual", "spare:usual"]


def test_a_profile_is_the_credential_of_that_name_and_nobody_stands_in(host: Host) -> None:
    chosen = host.models.chosen(model="small", profile="home")
    assert places(chosen) == ["lab:small"]
    assert key_for(host, chosen) == "sk-of-home-0123456789"
    assert key_for(host, host.models.chosen()) == "sk-configured"


def test_a_profile_stays_with_what_is_derived_from_it(host: Host) -> None:
    main = host.models.chosen(profile="home")
    assert key_for(host, host.models.chosen(model="small", main=main)) == "sk-of-home-0123456789"
    assert key_for(host, host.models.chosen(profile="work", main=main)) == "sk-of-work-0123456789"


@pytest.mark.parametrize(("provider", "profile"), [("", "elsewhere"), ("spare", "home")])
def test_a_profile_that_does_not_exist_is_an_error(host: Host, provider: str, profile: str) -> None:
    with pytest.raises(ConfigError, match=rf"no credential '{profile}' is stored for {provider or 'lab'} \(stored: "):
        host.models.chosen(provider=provider, profile=profile)


def test_a_provider_that_does_not_exist_is_an_error(host: Host) -> None:
    with pytest.raises(ConfigError, match="unknown provider 'elsewhere'"):
        host.models.chosen(provider="elsewhere")
