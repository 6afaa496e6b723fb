"""From configuration to endpoints: who is asked, with which key, and who never sees it."""

from __future__ import annotations

import pytest

from hermes.config.sections import Config, Fallback, Model, Provider
from hermes.errors import ConfigError
from hermes.providers.routing import endpoints_for

OWN = Model(
    provider="openai",
    default="gpt",
    api_key="own-key-12345",
    extra_headers={"X-Secret": "own-header"},
    extra_body={"tag": 1},
)


def test_the_configured_provider_gets_its_key_headers_and_body() -> None:
    [endpoint] = endpoints_for(Config(model=OWN), {})
    assert (endpoint.base_url, endpoint.model, endpoint.api_key) == (
        "https://api.openai.com/v1",
        "gpt",
        "own-key-12345",
    )
    assert endpoint.extra_headers == {"X-Secret": "own-header"} and endpoint.extra_body == {"tag": 1}


@pytest.mark.parametrize("other", ["groq", "custom", "mine"])
def test_nothing_of_the_configured_provider_goes_to_another(other: str) -> None:
    config = Config(model=OWN, providers={"mine": Provider(base_url="http://127.0.0.1:1/v1")})
    env = {"CUSTOM_BASE_URL": "http://127.0.0.1:2/v1", "GROQ_API_KEY": "groq-key"}
    [endpoint] = endpoints_for(config, env, provider=other)
    assert endpoint.provider == other
    assert "own" not in endpoint.api_key
    assert (endpoint.extra_headers, endpoint.extra_body) == ({}, {})


def test_fallbacks_have_only_their_own_settings() -> None:
    config = Config(model=OWN, fallback_providers=[Fallback(provider="groq", model="llama", key_env="MY_KEY")])
    first, second = endpoints_for(config, {"MY_KEY": "groq-key"})
    assert (first.provider, second.provider, second.model, second.api_key) == ("openai", "groq", "llama", "groq-key")
    assert second.extra_headers == {}


@pytest.mark.parametrize(
    ("env", "provider"), [({"OPENROUTER_API_KEY": "k"}, "openrouter"), ({"GOOGLE_API_KEY": "k"}, "gemini")]
)
def test_a_key_in_the_environment_is_enough(env: dict[str, str], provider: str) -> None:
    [endpoint] = endpoints_for(Config(), env, model="m")
    assert (endpoint.provider, endpoint.api_key) == (provider, "k")


def test_an_address_alone_means_a_custom_server() -> None:
    [endpoint] = endpoints_for(Config(model=Model(base_url="http://127.0.0.1:1/v1", default="m")), {})
    assert (endpoint.provider, endpoint.api_key) == ("custom", "")


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (Config(), {}, "no model is set up"),
        (Config(), {"provider": "custom", "model": "m"}, "no address"),
        (Config(), {"provider": "ollama"}, "no model is chosen"),
        (Config(), {"provider": "olama", "model": "m"}, "did you mean 'ollama'"),
        (Config(providers={"x": Provider(enabled=False)}), {"provider": "x", "model": "m"}, "disabled"),
        (Config(model=Model(base_url="nonsense", default="m")), {}, "http://"),
        (Config(model=Model(base_url="http://h/v1", default="m", api_mode="anthropic_messages")), {}, "api_mode"),
    ],
)
def test_what_cannot_work_says_what_to_do(config: Config, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        endpoints_for(config, {}, **options)
