"""What is known about providers, failures and patience, as tables."""

from __future__ import annotations

import dataclasses
from typing import get_args

from hermes.errors import RETRYABLE, FailureReason, ProviderError
from hermes.providers.endpoint import Endpoint, Timeouts
from hermes.providers.failures import STATUSES
from hermes.providers.policy import Failure, Send, attempts
from hermes.providers.profiles import PROFILES

from .markdown import code, table

_TIMEOUTS = {
    "connect": "opening the connection, TLS included",
    "first_byte": "from the request to the first byte of the answer",
    "between_chunks": "between two pieces of an answer that has begun",
    "total": "the whole request",
}


def profiles() -> str:
    """The providers that need no address."""
    rows = [
        (code(name), code(profile.base_url), " or ".join(map(code, profile.key_env)) or "no key")
        for name, profile in PROFILES.items()
    ]
    return table(("provider", "address", "key"), rows)


def failures() -> str:
    """Every class of failure and what is done about it."""
    reasons: tuple[FailureReason, ...] = get_args(FailureReason)
    rows = [
        (
            code(reason),
            ", ".join(str(status) for status, known in STATUSES.items() if known == reason),
            "yes" if reason in RETRYABLE else "no",
            "yes" if _goes_on_elsewhere(reason) else "no",
        )
        for reason in reasons
    ]
    return table(("reason", "HTTP status", "tried again", "the next endpoint is asked"), rows)


def timeouts() -> str:
    """How long each phase of a request may take."""
    defaults = dataclasses.asdict(Timeouts())
    return table(("phase", "seconds", "meaning"), [(code(n), f"{defaults[n]:g}", _TIMEOUTS[n]) for n in defaults])


def _goes_on_elsewhere(reason: FailureReason) -> bool:
    """Whether a second endpoint gets a chance: found out by failing at the first."""
    first, second = (Endpoint("http://127.0.0.1:1/v1", name) for name in ("first", "second"))
    policy = attempts([first, second], 0)
    next(policy)
    try:
        action = policy.send(Failure(ProviderError("", reason=reason)))
    except ProviderError:
        return False
    return isinstance(action, Send) and action.endpoint is second
