"""Lazy access to the price data: the cost of a reply and the listed facts of a model, for public servers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.models.endpoint import Endpoint
from hermes.models.reply import Reply

if TYPE_CHECKING:
    from hermes.models.costs.prices import PricedModel


#: A private server has no public prices.
_PUBLIC = "https://"


def known_model(endpoint: Endpoint) -> PricedModel | None:
    """The entry of an endpoint's model in the price data."""
    if not endpoint.base_url.startswith(_PUBLIC):
        return None
    from hermes.models.costs.prices import find_model

    return find_model(endpoint.base_url, endpoint.model)


def priced(reply: Reply, endpoint: Endpoint, at: float) -> Reply:
    """The reply with its cost, where that is known: as the provider reports it, else by the price data."""
    usage = reply.usage
    if usage is not None and usage.cost_usd is None and endpoint.base_url.startswith(_PUBLIC):
        from hermes.models.costs.prices import cost_of

        usage.cost_usd = cost_of(endpoint, reply.model, usage, at)
    return reply
