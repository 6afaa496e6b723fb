"""Endpoints of the local provider: recognises them and fills in the facts of the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from hermes.models.endpoint import Endpoint

if TYPE_CHECKING:
    from hermes.models.local.install.weights import Weights

#: The provider's name.
LOCAL = "local"
#: The model that ``hermes local install`` gets. No file name, so that a user's file never has it.
EMBEDDED = "smollm2-135m"
#: The placeholder for the address until the server runs and has a port.
ADDRESS = "http://127.0.0.1:0/v1"

NOTICE = (
    "no model is set up, so the embedded SmolLM2-135M answers (a toy, to try things offline). "
    "Set up a real one: hermes model"
)


def is_local(endpoint: Endpoint) -> bool:
    """Whether a server of our own answers for an endpoint. A user's provider of that name has an address."""
    return endpoint.provider == LOCAL and endpoint.base_url == ADDRESS


def is_embedded(endpoint: Endpoint) -> bool:
    """Whether it is the small model itself, which needs its own wire and whose commands are always asked about."""
    return endpoint.model == EMBEDDED and is_local(endpoint)


def settled(endpoint: Endpoint, weights: Weights) -> Endpoint:
    """A local endpoint with what is known of the model that will answer."""
    if weights.is_embedded:
        # Its wire keeps what fits; a summary by so small a model would be of no use.
        return replace(endpoint, model=weights.name, sees_images=False, context_length=None)
    return replace(endpoint, model=weights.name, context_length=weights.context_length)
