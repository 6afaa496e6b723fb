"""From configuration to endpoints: who is asked, with which key, and who never sees it."""

from __future__ import annotations

from typing import Any

import pytest

from hermes.base.config.schema.sections import (
    Config,
    FallbackConfig,
    ModelConfig,
    ModelProviderConfig,
    PhaseTimeoutsConfig,
    ProviderQuirksConfig,
)
from hermes.base.errors import ConfigError
from hermes.models.endpoint import ApiMode, Endpoint, Quirks, Timeouts
from hermes.models.profiles import Profile
from hermes.models.routing import another_model, endpoint_for, endpoints_for, guess_api_mode

OWN = ModelConfig(
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
    config = Config(model=OWN, providers={"mine": ModelProviderConfig(base_url="http://127.0.0.1:1/v1")})
    env = {"CUSTOM_BASE_URL": "http://127.0.0.1:2/v1", "GROQ_API_KEY": "groq-key"}
    [endpoint] = endpoints_for(config, env, provider=other)
    assert endpoint.provider == other
    assert "own" not in endpoint.api_key
    assert (endpoint.extra_headers, endpoint.extra_body) == ({}, {})


def test_fallbacks_have_only_their_own_settings() -> None:
    config = Config(model=OWN, fallback_providers=[FallbackConfig(provider="groq", model="llama", key_env="MY_KEY")])
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
    [endpoint] = endpoints_for(Config(model=ModelConfig(base_url="http://127.0.0.1:1/v1", default="m")), {})
    assert (endpoint.provider, endpoint.api_key) == ("custom", "")


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        (Config(), {}, "no model is set up"),
        (Config(), {"provider": "custom", "model": "m"}, "no address"),
        (Config(), {"provider": "ollama"}, "no model is chosen"),
        (
            Config(),
            {"provider": "olama", "model": "m"},
            r"unknown provider 'olama'; did you mean 'ollama'\? 'providers.olama' in config.yaml adds one",
        ),
        (
            Config(),
            {"provider": "nope", "model": "m"},
            r"unknown provider 'nope'; there are: [\w ,.-]+\. 'providers.nope' in config.yaml adds one",
        ),
        (Config(providers={"x": ModelProviderConfig(enabled=False)}), {"provider": "x", "model": "m"}, "disabled"),
        (Config(model=ModelConfig(base_url="nonsense", default="m")), {}, "http://"),
        (Config(model=ModelConfig(base_url="http://[::1/v1", default="m")), {}, "base_url cannot be parsed"),
        (
            Config(model=OWN, fallback_providers=[FallbackConfig(provider="lmstudio")]),
            {},
            "no model is chosen for provider 'lmstudio'",
        ),
    ],
)
def test_what_cannot_work_says_what_to_do(config: Config, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        endpoints_for(config, {}, **options)


def one(provider: str, model: str = "m", **settings: ModelProviderConfig) -> Endpoint:
    """The endpoint of a provider with nothing but what ``providers`` says."""
    return endpoint_for(Config(providers=settings), {}, provider, model, ModelConfig())


# -- the format -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("https://api.openai.com/v1", "codex_responses"),
        ("https://api.anthropic.com", "anthropic_messages"),
        ("https://api.anthropic.com/v1/", "anthropic_messages"),
        ("https://gateway.example/anthropic", "anthropic_messages"),
        ("https://gateway.example/anthropic/v1/", "anthropic_messages"),
        ("https://anthropic.example/v1", "chat_completions"),
        ("https://api.openai.com.example/v1", "chat_completions"),
        ("http://127.0.0.1:8000/v1", "chat_completions"),
        ("http+unix:///run/llm.sock/v1", "chat_completions"),
    ],
)
def test_the_format_is_guessed_from_the_address(url: str, mode: ApiMode) -> None:
    assert guess_api_mode(url) == mode
    [endpoint] = endpoints_for(Config(model=ModelConfig(base_url=url, default="m")), {})
    assert endpoint.api_mode == mode


def test_the_format_that_is_set_wins() -> None:
    own = ModelConfig(base_url="https://api.openai.com/v1", default="m", api_mode="chat_completions")
    assert endpoints_for(Config(model=own), {})[0].api_mode == "chat_completions"
    assert one("openai", openai=ModelProviderConfig(api_mode="chat_completions")).api_mode == "chat_completions"


def test_a_known_provider_behind_another_address() -> None:
    # Most that imitate OpenAI speak the older format; nobody imitates Anthropic in another one.
    assert one("openai", openai=ModelProviderConfig(base_url="http://127.0.0.1:1/v1")).api_mode == "chat_completions"
    assert (
        one("anthropic", anthropic=ModelProviderConfig(base_url="http://127.0.0.1:1")).api_mode == "anthropic_messages"
    )


# -- names ------------------------------------------------------------------------------------------------------------


def test_aliases_mean_the_provider_and_configured_names_never_do() -> None:
    [endpoint] = endpoints_for(Config(), {"XAI_API_KEY": "k"}, provider="grok", model="m")
    assert (endpoint.provider, endpoint.api_key) == ("xai", "k")
    own = ModelProviderConfig(base_url="http://127.0.0.1:1/v1")
    assert one("grok", grok=own).base_url == "http://127.0.0.1:1/v1"


def test_a_provider_without_a_model_has_its_default() -> None:
    [endpoint] = endpoints_for(Config(), {"ANTHROPIC_API_KEY": "k"})
    assert (endpoint.provider, endpoint.model) == ("anthropic", "claude-sonnet-5-5")
    assert one("openai", "", openai=ModelProviderConfig(model="mine")).model == "mine"
    with pytest.raises(ConfigError, match="no model is chosen"):
        one("openai", "", openai=ModelProviderConfig(base_url="http://127.0.0.1:1/v1"))


def test_another_provider_does_not_get_the_name_of_a_model_it_has_not() -> None:
    [endpoint] = endpoints_for(Config(model=OWN), {}, provider="anthropic")
    assert endpoint.model == "claude-sonnet-5-5"
    named = ModelProviderConfig(model_map={"gpt": "openai/gpt"})
    [endpoint] = endpoints_for(Config(model=OWN, providers={"openrouter": named}), {}, provider="openrouter")
    assert endpoint.model == "openai/gpt"


def test_names_are_mapped_for_each_provider() -> None:
    config = Config(
        model=OWN,
        providers={"openrouter": ModelProviderConfig(model_map={"gpt": "openai/gpt", "mini": "openai/gpt-mini"})},
        fallback_providers=[FallbackConfig(provider="openrouter"), FallbackConfig(provider="openrouter", model="mini")],
    )
    assert [endpoint.model for endpoint in endpoints_for(config, {})] == ["gpt", "openai/gpt", "openai/gpt-mini"]


def test_a_stored_key_is_enough_after_those_of_the_environment() -> None:
    [endpoint] = endpoints_for(Config(), {}, has_key=lambda name: name == "groq")
    assert endpoint.provider == "groq"
    [endpoint] = endpoints_for(Config(), {"XAI_API_KEY": "k"}, has_key=lambda name: name == "groq")
    assert endpoint.provider == "xai"


def test_profiles_of_plugins_count_as_known() -> None:
    acme = Profile("https://acme.example/v1", ("ACME_KEY",), aliases=("the-acme",), default_model="anvil")
    [endpoint] = endpoints_for(Config(), {"ACME_KEY": "k"}, provider="the-acme", profiles={"acme": acme})
    assert (endpoint.provider, endpoint.model, endpoint.api_key) == ("acme", "anvil", "k")


# -- what is known about a model --------------------------------------------------------------------------------------


def test_quirks_come_from_the_profile_and_the_configuration() -> None:
    assert one("mistral").quirks == Quirks(
        merge_system=True, merge_user=True, stream_options=False, reasoning="", tool_id_length=9
    )
    changed = one(
        "mistral", mistral=ModelProviderConfig(quirks=ProviderQuirksConfig(tool_id_length=0, parallel_tools=False))
    ).quirks
    assert (changed.tool_id_length, changed.parallel_tools, changed.stream_options) == (0, False, False)
    assert one("lab", lab=ModelProviderConfig(base_url="http://h/v1")).quirks == Quirks(merge_user=True)


def test_deepseek_behind_a_gateway_wants_its_reasoning_back() -> None:
    lab = {"lab": ModelProviderConfig(base_url="http://h/v1")}
    assert one("openrouter", "deepseek/deepseek-v4-pro").quirks.echo_reasoning
    assert one("lab", "deepseek-v4-pro", **lab).quirks.echo_reasoning
    assert not one("openrouter", "qwen/qwen3").quirks.echo_reasoning
    assert one("deepseek").quirks.echo_empty_reasoning
    assert not one("lab", "deepseek-v4-pro", **lab).quirks.echo_empty_reasoning


@pytest.mark.parametrize(
    ("url", "base_url", "api_mode"),
    [
        ("http://h/v1/chat/completions", "http://h/v1", "chat_completions"),
        ("http://h/v1/chat/completions/", "http://h/v1", "chat_completions"),
        ("http://h/v1/responses", "http://h/v1", "codex_responses"),
        ("http://h/v1/messages", "http://h/v1", "anthropic_messages"),
        ("http://h/v1", "http://h/v1", "chat_completions"),
    ],
)
def test_the_address_of_one_operation_is_that_of_the_server(url: str, base_url: str, api_mode: str) -> None:
    endpoint = one("lab", lab=ModelProviderConfig(base_url=url))
    assert (endpoint.base_url, endpoint.api_mode) == (base_url, api_mode)


def test_hermes_4_is_asked_to_reason() -> None:
    endpoint = one("nous", "Hermes-4-405B")
    assert endpoint.extra_body == {"reasoning": {"enabled": True}}
    assert one("nous", "Hermes-3-70B").extra_body == {}
    # And only it: the same place with another model.
    other = another_model(Config(), endpoint, "Hermes-3-70B")
    assert other.extra_body == {} and other.quirks.reasoning == "object"
    assert another_model(Config(), other, "hermes-4-70b").extra_body == {"reasoning": {"enabled": True}}


def test_what_is_known_about_one_model_is_not_said_of_another() -> None:
    own = ModelConfig(base_url="http://h/v1", default="seer", supports_vision=True, context_length=1000)
    [first] = endpoints_for(Config(model=own), {})
    assert (first.sees_images, first.context_length) == (True, 1000)
    [named] = endpoints_for(Config(model=own), {}, model="other")
    changed = another_model(Config(model=own), first, "other")
    assert (named.sees_images, named.context_length) == (changed.sees_images, changed.context_length) == (None, None)
    assert another_model(Config(model=own), first, "seer") is first


def test_settings_of_a_provider_and_of_its_models() -> None:
    models = {"seer": {"supports_vision": True, "context_length": 5000}, "odd": {"context_length": "much"}}
    lab = ModelProviderConfig(base_url="http://h/v1", models=models, supports_vision=False, context_length=9000)
    known = {name: one("lab", name, lab=lab) for name in ("seer", "odd", "other")}
    assert {name: (found.sees_images, found.context_length) for name, found in known.items()} == {
        "seer": (True, 5000),
        "odd": (False, 9000),
        "other": (False, 9000),
    }


def test_profiles_know_who_sees() -> None:
    assert one("anthropic", "claude-opus-5").sees_images is True
    assert one("openrouter", "google/gemini-3.8-flash").sees_images is True
    assert one("groq", "something").sees_images is None
    assert one("anthropic", "claude-opus-5", anthropic=ModelProviderConfig(supports_vision=False)).sees_images is False


def test_time_limits_for_each_phase() -> None:
    assert one("ollama").timeouts == Timeouts()
    lab = ModelProviderConfig(base_url="http://h/v1", timeout=7, timeouts=PhaseTimeoutsConfig(connect=1, first_byte=50))
    assert one("lab", lab=lab).timeouts == Timeouts(connect=1, first_byte=50, between_chunks=7)
    own = ModelConfig(base_url="http://h/v1", default="m", timeouts=PhaseTimeoutsConfig(total=9))
    assert endpoints_for(Config(model=own), {})[0].timeouts == Timeouts(total=9)
