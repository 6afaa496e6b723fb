"""Costs of model calls by the bundled price data. A model that is not listed has no known cost, never zero."""

from __future__ import annotations

import re
import time
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from hermes.models.costs.usage import Usage
from hermes.models.endpoint import Endpoint

_PATH = Path(__file__).with_name("prices.json")
_MILLION = 1_000_000
#: A day at the end of a model's name, as some gateways write it; the data has it with dashes.
_COMPACT_DAY = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")

#: Dollars for a million tokens. With tiers, ``(from how long a prompt on, dollars)``: the last that fits holds for all.
Price = float | list[tuple[int, float]] | None


class Rates(msgspec.Struct, array_like=True, frozen=True):
    """What a model charges, always or at some times."""

    #: From which day on, or between which two times of the day (UTC).
    when: str | tuple[str, str] | None
    input: Price
    output: Price
    #: Unset costs what other input costs.
    cache_read: Price = None
    cache_write: Price = None

    def holds_at(self, moment: time.struct_time) -> bool:
        """Whether these rates are those of a moment."""
        if self.when is None:
            return True
        if isinstance(self.when, str):
            return time.strftime("%Y-%m-%d", moment) >= self.when
        start, end = self.when
        now = time.strftime("%H:%M", moment)
        return start <= now < end if start <= end else now >= start or now < end

    def cost(self, usage: Usage) -> float:
        """Dollars for one call."""
        length = usage.prompt_tokens
        fresh = _dollars(self.input, length)
        read = fresh if self.cache_read is None else _dollars(self.cache_read, length)
        written = fresh if self.cache_write is None else _dollars(self.cache_write, length)
        total = usage.input_tokens * fresh + usage.cache_read_tokens * read + usage.cache_write_tokens * written
        return (total + usage.output_tokens * _dollars(self.output, length)) / _MILLION


class PricedModel(msgspec.Struct, array_like=True, frozen=True):
    """A model of a provider, and how it is recognised."""

    #: Each with a mark in front: ``=`` the name, ``^`` how it begins, ``$`` how it ends, ``*`` a part, ``~`` a pattern.
    names: list[str]
    context_window: int | None
    #: None at all where tokens are not what is paid for. Of several the last that holds counts.
    rates: list[Rates]
    charges_for_images: bool

    def is_called(self, name: str) -> bool:
        """Whether a name, in lower case, means this model."""
        return any(_fits(known[0], known[1:], name) for known in self.names)

    def rates_at(self, moment: time.struct_time) -> Rates | None:
        """What it charges at a moment."""
        for rates in reversed(self.rates):
            if rates.holds_at(moment):
                return rates
        return self.rates[0] if self.rates else None


class _PricedProvider(msgspec.Struct, frozen=True):
    models: list[PricedModel]
    #: Providers whose models this one offers too.
    behind: list[str] = []


class _Data(msgspec.Struct, frozen=True):
    source: str
    #: How addresses begin, the pattern they must fit or nothing, and whose they are.
    addresses: list[tuple[str, str, str]]
    providers: dict[str, msgspec.Raw]


def cost_of(endpoint: Endpoint, model: str, usage: Usage, at: float | None = None) -> float | None:
    """The cost of a call in dollars: as the provider reports it, else by the data; ``None`` when neither knows.

    ``model`` is the one that answered, which may have a longer name than the one that was asked.
    """
    if usage.cost_usd is not None:
        return usage.cost_usd
    found = find_model(endpoint.base_url, model) or find_model(endpoint.base_url, endpoint.model)
    rates = found.rates_at(time.gmtime(at)) if found is not None else None
    return None if rates is None else rates.cost(usage)


@lru_cache(maxsize=256)
def find_model(base_url: str, model: str) -> PricedModel | None:
    """What is known about a model at an address."""
    # Private servers have no public prices, and there is no need to read the data for them.
    if not model or not base_url.startswith("https://"):
        return None
    provider = _provider_at(base_url)
    if provider is None:
        return None
    name = model.lower()
    return _find(provider, name) or _find(provider, _COMPACT_DAY.sub(r"-\1-\2-\3", name))


def source() -> str:
    """Where the data comes from."""
    return _data().source


def _find(provider_id: str, name: str) -> PricedModel | None:
    provider = _provider(provider_id)
    sources = [provider, *map(_provider, provider.behind)]
    return next((model for source in sources for model in source.models if model.is_called(name)), None)


def _provider_at(base_url: str) -> str | None:
    likely = [entry for entry in _data().addresses if base_url.startswith(entry[0])]
    # Most addresses are plain, and patterns take time to prepare.
    likely.sort(key=lambda entry: bool(entry[1]))
    return next((owner for _, pattern, owner in likely if not pattern or re.match(pattern, base_url)), None)


@cache
def _data() -> _Data:
    return msgspec.json.decode(_PATH.read_bytes(), type=_Data)


@cache
def _provider(provider_id: str) -> _PricedProvider:
    return msgspec.json.decode(_data().providers[provider_id], type=_PricedProvider)


def _fits(mark: str, known: str, name: str) -> bool:
    match mark:
        case "=":
            return name == known
        case "^":
            return name.startswith(known)
        case "$":
            return name.endswith(known)
        case "*":
            return known in name
        case _:
            return re.search(known, name) is not None


def _dollars(price: Price, length: int) -> float:
    if not isinstance(price, list):
        return price or 0.0
    return next((dollars for start, dollars in reversed(price) if length > start), price[0][1])
