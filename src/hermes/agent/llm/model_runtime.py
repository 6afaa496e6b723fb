"""The models of a conversation: their endpoints, and the settings of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hermes.agent.llm.models import Models
    from hermes.models.endpoint import Endpoint

#: What the limit of an answer is called on one wire or another.
OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class ModelRuntime(msgspec.Struct, frozen=True):
    """What the model calls of a conversation need: endpoints, whose they are, and the settings of requests."""

    source: Models
    endpoints: Sequence[Endpoint]
    max_retries: int = 3
    max_tokens: int | None = None
    temperature: float | None = None
    #: As the provider names it; empty leaves it to the model.
    reasoning_effort: str = ""

    @property
    def model(self) -> str:
        """The model of the first choice."""
        return self.endpoints[0].model

    @property
    def has_output_limit(self) -> bool:
        """Whether the user limits the length of an answer."""
        first = self.endpoints[0]
        limit = first.max_tokens if self.max_tokens is None else self.max_tokens
        return limit is not None or any(name in first.extra_body for name in OUTPUT_LIMITS)
