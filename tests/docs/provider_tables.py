"""What is known about providers, failures and patience, as tables."""

from __future__ import annotations

from typing import get_args

import msgspec

from hermes.base.errors import RETRYABLE, FailureReason, ProviderError
from hermes.models.endpoint import Endpoint, Quirks, Timeouts
from hermes.models.failures import STATUSES
from hermes.models.local.endpoint import ADDRESS
from hermes.models.profiles import PROFILES
from hermes.models.retry import Failure, Send, attempts

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
        (
            ", ".join(map(code, (name, *profile.aliases))),
            "[this machine](local.md)" if profile.base_url == ADDRESS else code(profile.base_url),
            " or ".join(map(code, profile.key_env)) or "no key",
            code(profile.api_mode),
            code(profile.default_model),
        )
        for name, profile in PROFILES.items()
    ]
    return table(("provider", "address", "key", "format", "model when none is named"), rows)


def quirks() -> str:
    """Where each provider departs from the format it speaks."""
    plain = Quirks()
    rows: list[tuple[str, str]] = []
    for name, profile in PROFILES.items():
        changed = msgspec.structs.asdict(profile.quirks)
        words = [f"{field}: {_value(value)}" for field, value in changed.items() if value != getattr(plain, field)]
        for family in profile.families:
            of_family = [f"{field}: {_value(value)}" for field, value in family.quirks.items()]
            of_family += [f"extra_body.{field}: {_value(value)}" for field, value in family.extra_body.items()]
            words.append(f"{' '.join(f'{begin}*' for begin in family.begins)}: {', '.join(of_family)}")
        if words:
            rows.append((code(name), "; ".join(map(code, words))))
    return table(("provider", "differs in"), rows)


def _value(value: object) -> str:
    return msgspec.json.encode(value).decode()


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
    defaults = msgspec.structs.asdict(Timeouts())
    return table(("phase", "seconds", "meaning"), [(code(n), f"{defaults[n]:g}", _TIMEOUTS[n]) for n in defaults])


def _goes_on_elsewhere(reason: FailureReason) -> bool:
    """Whether a second endpoint gets a chance: found out by failing at the first."""
    first, second = (Endpoint(f"http://{name}.example/v1", name) for name in ("first", "second"))
    policy = attempts([first, second], 0)
    next(policy)
    try:
        action = policy.send(Failure(ProviderError("", reason=reason)))
    except ProviderError:
        return False
    return isinstance(action, Send) and action.endpoint is second
