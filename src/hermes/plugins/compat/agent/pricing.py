"""``agent.usage_pricing``: what tokens cost, by the price data of the host."""

from __future__ import annotations

from dataclasses import asdict, dataclass, is_dataclass
from decimal import Decimal
from typing import Any

from hermes.models.costs.prices import cost_of, source
from hermes.models.costs.usage import TOKEN_COUNTS, Usage, usage_from
from hermes.models.endpoint import Endpoint
from hermes.models.profiles import PROFILES, canonical

_UNKNOWN = "unknown"


@dataclass(frozen=True)
class CanonicalUsage:
    """The tokens of one or more calls. ``input_tokens`` leaves out what the prompt cache took or gave."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    request_count: int = 1
    raw_usage: dict[str, Any] | None = None

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: CanonicalUsage) -> CanonicalUsage:
        names = (*TOKEN_COUNTS, "request_count")
        return CanonicalUsage(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True)
class BillingRoute:
    """Who is paid for which model."""

    provider: str
    model: str
    base_url: str = ""
    billing_mode: str = _UNKNOWN


@dataclass(frozen=True)
class CostResult:
    """A cost in dollars. ``amount_usd`` is ``None``, and ``status`` ``unknown``, when the model has no known price."""

    amount_usd: Decimal | None
    status: str
    source: str
    label: str
    fetched_at: None = None
    pricing_version: str | None = None
    notes: tuple[str, ...] = ()


def resolve_billing_route(model_name: str, provider: str | None = None, base_url: str | None = None) -> BillingRoute:
    """The provider, the model and the address of a call."""
    model = (model_name or "").strip()
    name = canonical((provider or "").strip().lower())
    if not name and "/" in model and model.partition("/")[0] in PROFILES:
        name, _, model = model.partition("/")
    profile = PROFILES.get(name)
    url = (base_url or "").strip() or ("" if profile is None else profile.base_url)
    return BillingRoute(name or _UNKNOWN, model, url, "tokens" if url.startswith("https://") else _UNKNOWN)


def normalize_usage(response_usage: Any, *, provider: str | None = None, api_mode: str | None = None) -> CanonicalUsage:
    """The usage that a server reported, in one spelling."""
    found = usage_from(_mapping(response_usage)) or Usage()
    return CanonicalUsage(**{name: getattr(found, name) for name in TOKEN_COUNTS})


def estimate_usage_cost(
    model_name: str,
    usage: CanonicalUsage,
    *,
    provider: str | None = None,
    base_url: str | None = None,
    api_key: str | None = None,
) -> CostResult:
    """What the tokens cost."""
    route = resolve_billing_route(model_name, provider, base_url)
    amount = None
    if route.model and route.base_url:
        endpoint = Endpoint(route.base_url, route.model, route.provider)
        counts = {name: int(getattr(usage, name, 0) or 0) for name in TOKEN_COUNTS}
        amount = cost_of(endpoint, route.model, Usage(**counts))
    if amount is None:
        return CostResult(None, _UNKNOWN, "none", "n/a")
    dollars = Decimal(str(amount))
    return CostResult(dollars, "estimated", "price_data", f"~${dollars:.4f}", pricing_version=source())


def has_known_pricing(
    model_name: str, provider: str | None = None, base_url: str | None = None, api_key: str | None = None
) -> bool:
    """Whether the price of a model is known."""
    return (
        estimate_usage_cost(model_name, CanonicalUsage(1, 1), provider=provider, base_url=base_url).status != _UNKNOWN
    )


def _mapping(usage: Any) -> Any:
    """A usage as servers write it, from a mapping or from an object of a client library."""
    if usage is None or isinstance(usage, dict):
        return usage  # pyright: ignore[reportUnknownVariableType]
    if is_dataclass(usage) and not isinstance(usage, type):
        return asdict(usage)
    dump = getattr(usage, "model_dump", None)
    return dump() if callable(dump) else vars(usage) if hasattr(usage, "__dict__") else None
