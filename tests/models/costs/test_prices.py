"""What calls cost: the shipped data gives what the package it was made from gives, and nothing where that is unsure."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import Usage as PackageUsage
from genai_prices import data, types
from hypothesis import given
from hypothesis import strategies as st

from hermes.models.costs.price_lookup import priced
from hermes.models.costs.prices import PricedModel, cost_of, find_model, source
from hermes.models.costs.usage import Usage
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Reply
from prices.snapshot import PATH, snapshot

#: An address that each provider of the package has, for those whose pattern is not an address.
ADDRESSES = {
    "aws": "https://bedrock-runtime.us-east-1.amazonaws.com",
    "azure": "https://mine.openai.azure.com/openai",
    "cloudflare": "https://api.cloudflare.com/client/v4/accounts/me/ai/v1",
    "cohere": "https://api.cohere.ai/v1",
    "databricks": "https://mine.cloud.databricks.com/serving-endpoints",
    "elevenlabs": "https://api.elevenlabs.io",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai",
    "minimax": "https://api.minimax.io/v1",
    "modal": "https://mine.modal.run/v1",
    "moonshotai": "https://api.moonshot.ai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
}
#: Between all the days and times of day at which some price changes.
MOMENTS = [datetime(2025, 1, 1, 2, 0), datetime(2026, 8, 11, 9, 0), datetime(2026, 10, 19, 17, 0), datetime(2027, 6, 1)]

SONNET = Endpoint("https://api.anthropic.com", "claude-sonnet-5-5", "anthropic")


def address(provider: types.Provider) -> str:
    plain = provider.api_pattern.replace("\\", "").replace("(?:/|$)", "")
    return ADDRESSES.get(provider.id, plain + "/v1")


def test_the_shipped_data_is_what_the_package_has() -> None:
    assert PATH.read_bytes() == snapshot(), "run: python -m tests.prices"
    assert source() == "genai-prices 0.2.1"
    assert b"Copyright (c) Pydantic Services" in PATH.read_bytes()


#: One shares the address of another, which is the one that is meant.
FINDABLE = [provider for provider in data.providers if provider.id != "openai-decisions"]


@pytest.mark.parametrize("provider", FINDABLE, ids=lambda provider: provider.id)
def test_every_model_costs_what_the_package_says(provider: types.Provider) -> None:
    usage = Usage(input_tokens=1_000, output_tokens=700, cache_read_tokens=180_500, cache_write_tokens=119_700)
    counted = PackageUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
    )
    for model in provider.models:
        found = find_model(address(provider), model.id)
        meant = provider.find_model(model.id, all_providers=data.providers)
        if meant is None or not found or not found.rates:
            assert meant is None or found is not None
            continue
        assert found.context_window == meant.context_window
        for moment in MOMENTS:
            at = moment.replace(tzinfo=UTC)
            expected = meant.get_prices(at).calc_price(counted)["total_price"]
            mine = cost_of(Endpoint(address(provider), model.id), "", usage, at.timestamp())
            assert mine is not None
            assert Decimal(mine) == pytest.approx(expected, rel=Decimal("1e-9")), (model.id, moment)


def test_what_the_cache_saves() -> None:
    fresh = cost_of(SONNET, "", Usage(input_tokens=100_000))
    read = cost_of(SONNET, "", Usage(cache_read_tokens=100_000))
    written = cost_of(SONNET, "", Usage(cache_write_tokens=100_000))
    assert fresh is not None and read is not None and written is not None
    assert read < fresh < written


@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint("https://api.openai.com/v1", "nobody-knows-this"),
        Endpoint("https://unknown.example/v1", "gpt-4o"),
        Endpoint("http://127.0.0.1:11434/v1", "gpt-4o"),
        Endpoint("http+unix:///run/llm.sock/v1", "gpt-4o"),
        Endpoint("https://api.openai.com/v1", "whisper-1"),
        Endpoint("https://openrouter.ai/api/v1", "qwen/qwq-32b:free"),
    ],
    ids=lambda endpoint: endpoint.base_url + " " + endpoint.model,
)
def test_an_unknown_price_is_none_and_never_zero(endpoint: Endpoint) -> None:
    assert cost_of(endpoint, endpoint.model, Usage(1000, 1000)) is None


def test_what_the_provider_says_wins() -> None:
    assert cost_of(SONNET, "", Usage(1000, 1000, cost_usd=0.5)) == 0.5
    assert cost_of(SONNET, "", Usage(1000, 1000, cost_usd=0.0)) == 0.0


def test_the_model_that_answered_is_paid_and_else_the_one_that_was_asked() -> None:
    asked = Endpoint("https://openrouter.ai/api/v1", "anthropic/claude-opus-5")
    usage = Usage(1000, 1000)
    opus = cost_of(asked, "", usage)
    assert cost_of(asked, "anthropic/claude-sonnet-5.5", usage) != opus
    assert cost_of(asked, "a name nobody has heard", usage) == opus
    assert find_model("https://api.openai.com/v1", "GPT-4o-20241120") is not None


def test_replies_are_priced_once() -> None:
    reply = Reply("hi", usage=Usage(1_000_000, 0), model="claude-sonnet-5-5")
    assert priced(reply, SONNET, 0).usage == Usage(1_000_000, 0, cost_usd=2.0)
    assert priced(Reply("hi"), SONNET, 0).usage is None
    own = priced(Reply("hi", usage=Usage(1)), Endpoint("http://127.0.0.1:1/v1", "claude-sonnet-5-5"), 0)
    assert own.usage is not None and own.usage.cost_usd is None


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_address_and_name_can_be_looked_up(rest: str, model: str) -> None:
    for url in (f"https://api.openai.com/{rest}", f"https://{rest}", rest):
        found = find_model(url, model)
        assert found is None or isinstance(found, PricedModel)
