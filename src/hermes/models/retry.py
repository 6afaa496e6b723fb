"""Retry policy with exponential backoff and jitter: rotation of keys, ``Retry-After``, and fallback to other endpoints.

The policy is a generator that does no I/O. It yields ``Send`` and ``Sleep``; ``retry`` executes them in the caller's
thread.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from hermes.base.errors import FailureReason, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.endpoint import Endpoint
from hermes.models.failures import ConnectTimeout
from hermes.models.health import Health


class KeyRing(Protocol):
    """Lends out the keys of endpoints. Every endpoint from ``take`` is returned through ``report``, exactly once."""

    def take(self, endpoint: Endpoint, before_waiting: Callable[[], object] | None = None) -> Endpoint | None:
        """The endpoint with a key to use now; ``None`` when all of its keys are cooling down.

        ``before_waiting`` is called before a server is asked for a new token.
        """
        ...

    def report(self, endpoint: Endpoint, error: ProviderError | None) -> None:
        """Return the key with the outcome of the request; one that was refused or used up cools down from now on."""
        ...

    def comes_back(self, endpoint: Endpoint) -> bool:
        """After ``take`` returned ``None``: whether waiting helps, because a valid key is only cooling down."""
        ...

    def explain(self, endpoint: Endpoint) -> str:
        """Why ``take`` returned ``None``, and what to do, in one line."""
        ...


T = TypeVar("T")

#: The first wait; it doubles with every retry.
BASE_DELAY = 0.5
MAX_DELAY = 30.0
#: A longer ``Retry-After`` counts as a failure of the endpoint.
MAX_RETRY_AFTER = 120.0

#: Failures that belong to the conversation, not to the endpoint: another one would give the same answer.
_SAME_EVERYWHERE: frozenset[FailureReason] = frozenset({"bad_request", "context_too_long", "content_policy"})
#: Failures that belong to the key: another key of the same provider may do better.
_OF_THE_KEY: frozenset[FailureReason] = frozenset({"auth", "billing", "rate_limit"})
#: Failures of an account, which every model behind the same key shares.
_OF_THE_ACCOUNT: frozenset[FailureReason] = frozenset({"auth", "billing"})
#: Reported to the key ring when the attempt ended in any other way; no key cools down for it.
_GIVEN_UP = ProviderError("the request was given up", reason="connection")


class Send(Struct, frozen=True):
    """Send the request to this endpoint now. ``attempt`` counts per endpoint, ``number`` over all, both from 1."""

    endpoint: Endpoint
    attempt: int
    number: int
    #: Why the attempt before this one failed; ``None`` for the first.
    after: ProviderError | None = None
    #: The endpoint this one takes over from; ``None`` while it is the same.
    instead_of: Endpoint | None = None
    #: Whether the endpoint of first choice is asked again after it had failed in an earlier call.
    is_return: bool = False


class Sleep(Struct, frozen=True):
    """Wait before the next attempt; the caller does it, so that an interrupt can end it."""

    seconds: float
    after: ProviderError
    #: The endpoint that is asked again, which retry it is, and how many there are at most.
    endpoint: Endpoint | None = None
    retry: int = 1
    max_retries: int = 1


class Failure(Struct, frozen=True):
    """The error of an attempt.

    Text that the user has seen cannot be taken back, so there is no retry after it, unless ``safe_to_repeat`` says
    that the caller can continue or replace what was shown.
    """

    error: ProviderError
    text_was_shown: bool = False
    safe_to_repeat: bool = False


Attempts = Generator[Send | Sleep, Failure | None, None]


def _random() -> float:
    from random import random  # only a failure needs it

    return random()


def attempts(
    endpoints: Sequence[Endpoint],
    max_retries: int,
    *,
    keys: KeyRing | None = None,
    health: Health | None = None,
    jitter: Callable[[], float] = _random,
    before_waiting: Callable[[], object] | None = None,
) -> Attempts:
    """The attempts of one model call, as a generator that does no I/O itself.

    It yields ``Send`` and ``Sleep``. Answer a ``Send`` with ``send(Failure(...))``, or with ``send(None)`` when it
    succeeded; after a ``Sleep`` call ``next``. Close it when an attempt ends in any other way. Each endpoint gets its
    first attempt and ``max_retries`` more, as long as its failures are of a kind that may pass. A failure that
    belongs to the key is tried with the next key of the ring at once. Then the next endpoint takes over; those that
    failed in an earlier call, as ``health`` remembers, come last, and those behind a server or an account that failed
    as a whole are left out. When none is left, or the failure would be the same everywhere, the last error is raised
    out of the generator. ``before_waiting`` is called before the ring asks a server for a new token.
    """
    if not endpoints:
        raise ValueError("no endpoint to try")
    distinct = _distinct(endpoints) if len(endpoints) > 1 else endpoints
    return _RetryLoop(distinct, max_retries, keys, health or Health(), jitter, before_waiting).run()


class _RetryLoop(Struct):
    """The state of one model call: its position in the endpoints, its keys, its last error."""

    endpoints: Sequence[Endpoint]
    max_retries: int
    keys: KeyRing | None
    health: Health
    jitter: Callable[[], float]
    before_waiting: Callable[[], object] | None
    number: int = 0
    last: ProviderError | None = None
    #: The endpoint that was tried before.
    before: Endpoint | None = None

    def run(self) -> Attempts:
        order = self.health.order(self.endpoints)
        given_up: list[tuple[Endpoint, ProviderError]] = []
        for endpoint in order:
            if any(_shares_failure(endpoint, failed, error) for failed, error in given_up):
                continue
            error = yield from self._try_endpoint(endpoint, is_last=endpoint is order[-1])
            if error is None:
                self.health.worked(endpoint)
                return
            given_up.append((endpoint, error))
            self.last = error
            if error.recovery.fall_back is False:
                raise error
        assert self.last is not None
        raise self.last

    def _try_endpoint(
        self, endpoint: Endpoint, *, is_last: bool
    ) -> Generator[Send | Sleep, Failure | None, ProviderError | None]:
        """Ask one endpoint until it answers, with backoff; the error when another retry is pointless."""
        tried: set[str] = set()
        sent = retries = 0
        error: ProviderError | None = None
        lent = self._take(endpoint)
        try:
            while lent is not None:
                tried.add(lent.api_key)
                sent += 1
                using, lent = lent, None
                error = yield from self._send(endpoint, using, sent)
                if error is None:
                    return None
                if self.keys is not None and _is_of_key(error):
                    lent = self._take(endpoint)
                    if lent is not None and lent.api_key not in tried:
                        continue
                    if lent is None and not is_last:
                        break  # waiting for a key makes sense only when there is no other endpoint
                delay = _delay(error, retries + 1, self.jitter)
                if delay is None or retries == self.max_retries:
                    break
                yield Sleep(delay, error, endpoint, retries + 1, self.max_retries)
                retries += 1
                lent = lent or self._take(endpoint)
        finally:
            self._give_back(lent, _GIVEN_UP)
        if error is None:
            error = self._no_key(endpoint)
            self.before = endpoint  # nothing was sent, but the next endpoint takes over from this one
        self.health.failed(endpoint, error.reason)
        return error

    def _send(
        self, endpoint: Endpoint, lent: Endpoint, attempt: int
    ) -> Generator[Send, Failure | None, ProviderError | None]:
        """One attempt; the key is returned in any case. Raises a failure that every endpoint would share."""
        self.number += 1
        outcome: ProviderError | None = _GIVEN_UP
        # With a single endpoint, a return to it is not worth reporting.
        is_return = len(self.endpoints) > 1 and self.number == 1 and endpoint is self.endpoints[0]
        is_return = is_return and self.health.failure(endpoint) is not None
        before, self.before = self.before, endpoint
        instead_of = None if before is endpoint else before
        try:
            failure = yield Send(lent, attempt, self.number, self.last, instead_of, is_return)
            outcome = None if failure is None else failure.error
        finally:
            self._give_back(lent, outcome)
        if failure is None:
            return None
        error = self.last = failure.error
        if _is_same_everywhere(error) or (failure.text_was_shown and not failure.safe_to_repeat):
            raise error
        return error

    def _take(self, endpoint: Endpoint) -> Endpoint | None:
        return endpoint if self.keys is None else self.keys.take(endpoint, self.before_waiting)

    def _give_back(self, lent: Endpoint | None, outcome: ProviderError | None) -> None:
        if self.keys is not None and lent is not None:
            self.keys.report(lent, outcome)

    def _no_key(self, endpoint: Endpoint) -> ProviderError:
        assert self.keys is not None  # without a ring the endpoint's own key is always there
        reason = "rate_limit" if self.keys.comes_back(endpoint) else "auth"
        return ProviderError(self.keys.explain(endpoint), reason=reason)


def before_deadline(deadline: float, policy: Attempts) -> Attempts:
    """The policy cut off at a deadline (monotonic): what would start later raises the last error instead."""
    try:
        action = next(policy)
        while True:
            starts = time.monotonic() + (action.seconds if isinstance(action, Sleep) else 0)
            if action.after is not None and starts >= deadline:
                raise action.after
            outcome = yield action
            action = next(policy) if isinstance(action, Sleep) else policy.send(outcome)
    except StopIteration:
        return
    finally:
        policy.close()


def retry(
    policy: Attempts,
    interrupt: Interrupt,
    attempt: Callable[[Send], T | Failure],
    on_wait: Callable[[Sleep, float], None] | None = None,
) -> T:
    """Call ``attempt`` for every ``Send`` of a policy, in the caller's thread, until one of them succeeds.

    ``on_wait`` is called with every wait and the seconds that are left of it: at its beginning, then every second.
    Raises the last ``ProviderError`` when none does, and ``Interrupted`` when a wait between two is cancelled.
    """
    try:
        action = next(policy)
        while True:
            if isinstance(action, Sleep):
                _wait(action, interrupt, on_wait)
                action = next(policy)
                continue
            outcome = attempt(action)
            if not isinstance(outcome, Failure):
                with contextlib.suppress(StopIteration):  # which is how a policy ends
                    policy.send(None)
                return outcome
            action = policy.send(outcome)
    finally:
        policy.close()


def _wait(action: Sleep, interrupt: Interrupt, on_wait: Callable[[Sleep, float], None] | None) -> None:
    left, until = action.seconds, time.monotonic() + action.seconds
    interrupt.check()
    while left > 0:
        if on_wait is not None:
            on_wait(action, left)
        interrupt.wait(left if on_wait is None else min(left, 1.0))
        interrupt.check()
        left = until - time.monotonic()


def _distinct(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Without duplicates: what failed at the first would fail again."""
    found: dict[tuple[str, ...], Endpoint] = {}
    for one in endpoints:
        found.setdefault((one.base_url, one.model, one.api_mode, *_account(one)), one)
    return list(found.values())


def _is_of_key(error: ProviderError) -> bool:
    wanted = error.recovery.rotate
    return error.reason in _OF_THE_KEY if wanted is None else wanted


def _is_same_everywhere(error: ProviderError) -> bool:
    """Whether neither a retry nor another endpoint helps."""
    recovery = error.recovery
    if recovery.compress or (recovery.fall_back is None and not error.retryable):
        return bool(recovery.compress) or error.reason in _SAME_EVERYWHERE
    return False


def _shares_failure(endpoint: Endpoint, failed: Endpoint, error: ProviderError) -> bool:
    """Whether the failure of ``failed`` affects this endpoint too: the same server, or the same account there."""
    if _server(endpoint) != _server(failed):
        return False
    if error.reason == "connection" or isinstance(error, ConnectTimeout):
        return True
    return error.reason in _OF_THE_ACCOUNT and _account(endpoint) == _account(failed)


def _account(endpoint: Endpoint) -> tuple[str, str, str]:
    return (endpoint.provider, endpoint.credential, endpoint.api_key)


def _server(endpoint: Endpoint) -> str:
    parts = urlsplit(endpoint.base_url)
    return parts.netloc.lower() or parts.path


def _delay(error: ProviderError, attempt: int, jitter: Callable[[], float]) -> float | None:
    """Exponential backoff: seconds before the same endpoint is tried again, or ``None`` when that is pointless."""
    if not error.retryable:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= MAX_RETRY_AFTER else None
    # At least half of the doubling wait, the rest is jitter, so that many sessions do not return at the same moment.
    return min(BASE_DELAY * 2 ** (attempt - 1), MAX_DELAY) * (0.5 + jitter() / 2)
