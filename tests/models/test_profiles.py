"""The table of known providers."""

from __future__ import annotations

import pytest

from hermes.base.config.schema.sections import ProviderQuirksConfig
from hermes.models.costs.prices import find_model
from hermes.models.endpoint import Endpoint, Quirks
from hermes.models.profiles import CUSTOM, PROFILES, canonical
from hermes.models.wires.choice import wire_for
from hermes.models.wires.wire import ModelRequest

HOSTED = [name for name, profile in PROFILES.items() if profile.key_env]


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_can_be_asked(name: str) -> None:
    profile = PROFILES[name]
    endpoint = Endpoint(profile.base_url, profile.default_model or "m", name, "k", profile.api_mode)
    wire = wire_for(endpoint)
    request = wire.http_request(endpoint, wire.kwargs(endpoint, ModelRequest([{"role": "user", "content": "hi"}])))
    assert request.url.startswith(profile.base_url)


@pytest.mark.parametrize("name", HOSTED)
def test_hosted_providers_have_a_key_and_a_model(name: str) -> None:
    profile = PROFILES[name]
    assert profile.base_url.startswith("https://") and profile.default_model
    assert all(variable.endswith("_API_KEY") for variable in profile.key_env)
    if name != "nous":  # which the price data does not have
        assert find_model(profile.base_url, profile.default_model) is not None


def test_servers_of_ones_own_are_on_this_machine_and_ask_for_no_key() -> None:
    own = PROFILES.keys() - set(HOSTED)
    assert own == {"ollama", "vllm", "llamacpp", "lmstudio", "local"}
    assert all(PROFILES[name].base_url.startswith("http://127.0.0.1:") for name in own)


def test_names_and_aliases_mean_one_provider_each() -> None:
    names = [*PROFILES, CUSTOM, *(alias for profile in PROFILES.values() for alias in profile.aliases)]
    assert len(names) == len(set(names))
    assert [canonical(name) for name in ("Claude", " google ", "llama.cpp", "openai-compatible")] == [
        "anthropic",
        "gemini",
        "llamacpp",
        "custom",
    ]
    assert canonical("nobody") == "nobody"


def test_families_are_found_by_how_names_begin() -> None:
    openai = PROFILES["openai"]
    assert openai.quirks_of("gpt-5-mini").temperature is False
    assert openai.quirks_of("gpt-4o").temperature is True
    assert PROFILES["openrouter"].quirks_of("nousresearch/hermes-4-405b").reasoning == "enabled"


def test_everything_that_a_quirk_can_be_can_be_configured() -> None:
    assert set(Quirks.__struct_fields__) == set(ProviderQuirksConfig.__struct_fields__)
