"""When a failed request is tried again, how long to wait first, and when another endpoint takes over."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from hermes.errors import FailureReason, ProviderError
from hermes.providers.endpoint import Endpoint
from hermes.scope import Interrupt

T = TypeVar("T")

#: The first wait; it doubles with every retry.
BASE_DELAY = 0.5
MAX_DELAY = 30.0
#: A server that asks for more patience than this is treated as failed for now.
MAX_RETRY_AFTER = 120.0

#: Failures that belong to the conversation, not to the endpoint: another one would give the same answer.
_SAME_EVERYWHERE: frozenset[FailureReason] = frozenset({"bad_request", "context_too_long", "content_policy"})


@dataclass(frozen=True, slots=True)
class Send:
    """Try this endpoint now. ``attempt`` counts from 1 for each endpoint, ``number`` over all of them."""

    endpoint: Endpoint
    attempt: int
    number: int
    #: Why the attempt before this one failed; ``None`` for the first.
    after: ProviderError | None = None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait before the next attempt; the caller does it, so that an interrupt can end it."""

    seconds: float
    after: ProviderError


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt went wrong.

    Text the user has seen cannot be taken back, so nothing is tried again after it, unless
    ``safe_to_repeat`` says that the caller can continue or replace what was shown.
    """

    error: ProviderError
    text_was_shown: bool = False
    safe_to_repeat: bool = False


Attempts = Generator[Send | Sleep, Failure | None, None]


def attempts(
    endpoints: Sequence[Endpoint], max_retries: int, *, jitter: Callable[[], float] = random.random
) -> Attempts:
    """The attempts of one model call, as a generator that does no I/O itself.

    It yields ``Send`` and ``Sleep``. Answer a ``Send`` with ``send(Failure(...))``, or with ``send(None)``
    (or by dropping the generator) when it succeeded; after a ``Sleep`` call ``next``. Each endpoint gets its
    first attempt and ``max_retries`` more, as long as its failures are of a kind that may pass. Then the next
    endpoint takes over. When none is left, or the failure would be the same everywhere, the last error is
    raised out of the generator.
    """
    number = 0
    last: ProviderError | None = None
    for endpoint in endpoints:
        for attempt in range(1, max_retries + 2):
            number += 1
            failure = yield Send(endpoint, attempt, number, last)
            if failure is None:
                return
            last = failure.error
            if last.reason in _SAME_EVERYWHERE or (failure.text_was_shown and not failure.safe_to_repeat):
                raise last
            delay = _delay(last, attempt, jitter)
            if delay is None or attempt > max_retries:
                break
            yield Sleep(delay, last)
    if last is None:
        raise ValueError("no endpoint to try")
    raise last


def pursue(
    endpoints: Sequence[Endpoint], max_retries: int, interrupt: Interrupt, attempt: Callable[[Send], T | Failure]
) -> T:
    """Make the attempts in the caller's thread, with ``attempt``, until one of them succeeds.

    Raises the last ``ProviderError`` when none does, and ``Interrupted`` when a wait between two is cancelled.
    """
    policy = attempts(endpoints, max_retries)
    action = next(policy)
    while True:
        if isinstance(action, Sleep):
            interrupt.wait(action.seconds)
            interrupt.check()
            action = next(policy)
            continue
        outcome = attempt(action)
        if not isinstance(outcome, Failure):
            return outcome
        action = policy.send(outcome)


def _delay(error: ProviderError, attempt: int, jitter: Callable[[], float]) -> float | None:
    """Seconds before the same endpoint is tried again, or ``None`` when that is pointless."""
    if not error.retryable:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= MAX_RETRY_AFTER else None
    # At least half of the doubling wait, the rest at random, so that many sessions do not return as one.
    return min(BASE_DELAY * 2 ** (attempt - 1), MAX_DELAY) * (0.5 + jitter() / 2)
