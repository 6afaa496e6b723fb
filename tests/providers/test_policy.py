"""Retries, waits and fallbacks, without any I/O."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hermes.errors import RETRYABLE, FailureReason, ProviderError
from hermes.providers.endpoint import Endpoint
from hermes.providers.policy import MAX_DELAY, Failure, Send, Sleep, attempts

FIRST = Endpoint("http://first", "a")
SECOND = Endpoint("http://second", "b")


def error(reason: FailureReason, retry_after: float | None = None) -> ProviderError:
    return ProviderError("it failed", reason=reason, retry_after=retry_after)


def play(
    endpoints: Sequence[Endpoint], retries: int, outcomes: Sequence[Failure | None]
) -> tuple[list[Send | Sleep], ProviderError | None]:
    """Every step the policy asks for when the attempts end like this, and the error it gives up with."""
    policy = attempts(endpoints, retries, jitter=lambda: 1.0)
    left = iter(outcomes)
    steps: list[Send | Sleep] = []
    try:
        step = next(policy)
        while True:
            steps.append(step)
            step = next(policy) if isinstance(step, Sleep) else policy.send(next(left))
    except StopIteration:
        return steps, None
    except ProviderError as given_up:
        return steps, given_up


def test_success_at_once() -> None:
    assert play([FIRST], 3, [None]) == ([Send(FIRST, 1, 1)], None)


@pytest.mark.parametrize("reason", sorted(RETRYABLE))
def test_what_may_pass_is_tried_again_with_growing_waits(reason: FailureReason) -> None:
    failure = error(reason)
    steps, given_up = play([FIRST], 3, [Failure(failure)] * 4)
    assert [step.seconds for step in steps if isinstance(step, Sleep)] == [0.5, 1.0, 2.0]
    assert [(step.attempt, step.number) for step in steps if isinstance(step, Send)] == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert given_up is failure


@pytest.mark.parametrize("reason", ["auth", "billing", "model_missing"])
def test_what_is_wrong_with_the_endpoint_goes_straight_to_the_next(reason: FailureReason) -> None:
    failure = error(reason)
    steps, given_up = play([FIRST, SECOND], 3, [Failure(failure), None])
    assert steps == [Send(FIRST, 1, 1), Send(SECOND, 1, 2, failure)]
    assert given_up is None


@pytest.mark.parametrize("reason", ["bad_request", "context_too_long", "content_policy"])
def test_what_is_wrong_with_the_conversation_is_raised_at_once(reason: FailureReason) -> None:
    failure = error(reason)
    steps, given_up = play([FIRST, SECOND], 3, [Failure(failure)])
    assert len(steps) == 1
    assert given_up is failure


def test_the_next_endpoint_follows_when_the_retries_are_spent() -> None:
    failure, last = error("overloaded"), error("server_error")
    outcomes = [Failure(failure), Failure(failure), Failure(last), Failure(last)]
    steps, given_up = play([FIRST, SECOND], 1, outcomes)
    assert [type(step) for step in steps] == [Send, Sleep, Send, Send, Sleep, Send]
    assert [step.endpoint for step in steps if isinstance(step, Send)] == [FIRST, FIRST, SECOND, SECOND]
    assert given_up is last


def test_the_server_says_how_long_to_wait() -> None:
    steps, _ = play([FIRST], 1, [Failure(error("rate_limit", retry_after=7)), None])
    assert [step.seconds for step in steps if isinstance(step, Sleep)] == [7]


def test_a_server_that_wants_hours_is_left_for_the_next() -> None:
    failure = error("rate_limit", retry_after=3600)
    steps, _ = play([FIRST, SECOND], 3, [Failure(failure), None])
    assert [type(step) for step in steps] == [Send, Send]
    assert play([FIRST], 3, [Failure(failure)])[1] is failure


def test_nothing_is_tried_again_after_the_user_saw_text() -> None:
    failure = error("truncated")
    steps, given_up = play([FIRST, SECOND], 3, [Failure(failure, text_was_shown=True)])
    assert len(steps) == 1
    assert given_up is failure


def test_unless_the_caller_can_continue() -> None:
    failure = Failure(error("truncated"), text_was_shown=True, safe_to_repeat=True)
    steps, given_up = play([FIRST], 3, [failure, None])
    assert [type(step) for step in steps] == [Send, Sleep, Send]
    assert given_up is None


def test_waits_are_bounded_and_at_least_half_of_the_doubling() -> None:
    failure = Failure(error("overloaded"))
    policy = attempts([FIRST], 12, jitter=lambda: 0.0)
    step = next(policy)
    waits: list[float] = []
    for _ in range(12):
        step = policy.send(failure)
        assert isinstance(step, Sleep)
        waits.append(step.seconds)
        step = next(policy)
    assert waits[:3] == [0.25, 0.5, 1.0]
    assert waits[-1] == MAX_DELAY / 2


def test_no_retries_and_no_endpoints() -> None:
    assert len(play([FIRST], 0, [Failure(error("timeout"))])[0]) == 1
    with pytest.raises(ValueError, match="no endpoint"):
        next(attempts([], 3))
