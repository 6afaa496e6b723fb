"""Retries, waits and fallbacks, without any I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from hermes.base.errors import RETRYABLE, FailureReason, ProviderError
from hermes.base.scope import Interrupt, Interrupted
from hermes.models.endpoint import Endpoint
from hermes.models.failures import ConnectTimeout
from hermes.models.health import Health
from hermes.models.retry import MAX_DELAY, Failure, KeyRing, Send, Sleep, attempts, retry

FIRST = Endpoint("http://first", "a")
SECOND = Endpoint("http://second", "b")


def error(reason: FailureReason, retry_after: float | None = None) -> ProviderError:
    return ProviderError("it failed", reason=reason, retry_after=retry_after)


def play(
    endpoints: Sequence[Endpoint],
    retries: int,
    outcomes: Sequence[Failure | None],
    *,
    keys: KeyRing | None = None,
    health: Health | None = None,
) -> tuple[list[Send | Sleep], ProviderError | None]:
    """Every step the policy asks for when the attempts end like this, and the error it gives up with."""
    policy = attempts(endpoints, retries, keys=keys, health=health, jitter=lambda: 1.0)
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
    assert steps == [Send(FIRST, 1, 1), Send(SECOND, 1, 2, failure, instead_of=FIRST)]
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


# -- entries that share a failure ------------------------------------------------------------------------------------

GATEWAY = [Endpoint("https://gateway.example/v1", model, "gateway", "key-1") for model in ("large", "small")]
ELSEWHERE = Endpoint("https://other.example/v1", "other", "other", "key-2")


def asked(steps: Sequence[Send | Sleep]) -> list[str]:
    return [step.endpoint.model for step in steps if isinstance(step, Send)]


@pytest.mark.parametrize("reason", ["connection", "auth", "billing"])
def test_entries_behind_a_server_or_an_account_that_failed_are_left_out(reason: FailureReason) -> None:
    steps, given_up = play([*GATEWAY, ELSEWHERE], 0, [Failure(error(reason)), None])
    assert (asked(steps), given_up) == (["large", "other"], None)
    failure = error(reason)
    steps, given_up = play(GATEWAY, 0, [Failure(failure)])
    assert asked(steps) == ["large"] and given_up is failure


@pytest.mark.parametrize("reason", ["model_missing", "overloaded", "rate_limit", "timeout"])
def test_another_model_of_the_same_gateway_may_still_work(reason: FailureReason) -> None:
    steps, given_up = play(GATEWAY, 0, [Failure(error(reason)), None])
    assert (asked(steps), given_up) == (["large", "small"], None)


def test_a_server_that_nobody_can_connect_to_is_not_waited_for_twice() -> None:
    failure = ConnectTimeout("gateway: no connection within 15 s")
    steps, given_up = play([*GATEWAY, ELSEWHERE], 0, [Failure(failure), None])
    assert (asked(steps), given_up) == (["large", "other"], None)


@pytest.mark.parametrize("reason", ["model_missing", "overloaded", "rate_limit", "timeout"])
def test_an_entry_that_is_the_one_that_failed_is_left_out(reason: FailureReason) -> None:
    again = replace(GATEWAY[0], context_length=1000)
    steps, given_up = play([GATEWAY[0], again, ELSEWHERE], 0, [Failure(error(reason)), None])
    assert (asked(steps), given_up) == (["large", "other"], None)


def test_an_entry_that_names_the_first_again_is_nobody_else_to_ask() -> None:
    ring = Ring("a")
    steps, given_up = play([GATEWAY[0], GATEWAY[0]], 0, [Failure(error("rate_limit"))], keys=ring)
    assert (keys_of(steps), given_up and given_up.reason) == (["a"], "rate_limit")
    policy = attempts([GATEWAY[0], GATEWAY[0]], 2, keys=Ring("a"))
    next(policy)
    assert isinstance(policy.send(Failure(error("rate_limit", retry_after=3))), Sleep)


def test_another_key_at_the_same_server_is_another_account() -> None:
    other = replace(GATEWAY[1], api_key="key-3")
    assert asked(play([GATEWAY[0], other], 0, [Failure(error("auth")), None])[0]) == ["large", "small"]
    assert asked(play([GATEWAY[0], other], 0, [Failure(error("connection"))])[0]) == ["large"]


# -- several keys -----------------------------------------------------------------------------------------------------


class Ring:
    """A key ring of three keys, of which those that failed are not lent out again."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.lent: list[str] = []
        self.told: list[tuple[str, str | None]] = []

    def take(self, endpoint: Endpoint, before_waiting: Callable[[], object] | None = None) -> Endpoint | None:
        if endpoint.provider == "other":
            return endpoint
        if not self.names:
            return None
        self.lent.append(self.names[0])
        return replace(endpoint, api_key=self.names[0])

    def report(self, endpoint: Endpoint, error: ProviderError | None) -> None:
        if endpoint.provider == "other":
            return
        self.lent.remove(endpoint.api_key)
        self.told.append((endpoint.api_key, error and error.reason))
        if error is not None and error.reason in ("auth", "billing", "rate_limit"):
            self.names.remove(endpoint.api_key)

    def comes_back(self, endpoint: Endpoint) -> bool:
        return True

    def explain(self, endpoint: Endpoint) -> str:
        return f"{endpoint.provider}: all keys rest"


def keys_of(steps: Sequence[Send | Sleep]) -> list[str]:
    return [step.endpoint.api_key if isinstance(step, Send) else "sleep" for step in steps]


@pytest.mark.parametrize("reason", ["auth", "billing", "rate_limit"])
def test_the_next_key_is_used_at_once(reason: FailureReason) -> None:
    ring = Ring("a", "b", "c")
    steps, given_up = play(GATEWAY[:1], 3, [Failure(error(reason)), Failure(error(reason)), None], keys=ring)
    assert (keys_of(steps), given_up) == (["a", "b", "c"], None)
    assert ring.told == [("a", reason), ("b", reason), ("c", None)] and ring.lent == []


def test_the_fallback_follows_when_the_pool_is_spent() -> None:
    ring = Ring("a", "b")
    limit = Failure(error("rate_limit"))
    steps, given_up = play([GATEWAY[0], ELSEWHERE], 3, [limit, limit, None], keys=ring)
    assert (keys_of(steps), given_up) == (["a", "b", "key-2"], None)


def test_with_nobody_else_to_ask_a_spent_pool_is_waited_for() -> None:
    ring = Ring("a")
    policy = attempts(GATEWAY[:1], 2, keys=ring)
    assert isinstance(next(policy), Send)
    wait = policy.send(Failure(error("rate_limit", retry_after=3)))
    assert isinstance(wait, Sleep) and wait.seconds == 3
    ring.names.append("a")
    again = next(policy)
    assert isinstance(again, Send) and again.endpoint.api_key == "a"


def test_keys_that_all_rest_are_explained() -> None:
    steps, given_up = play(GATEWAY[:1], 3, [], keys=Ring())
    assert steps == [] and str(given_up) == "gateway: all keys rest"
    [send] = play([GATEWAY[0], ELSEWHERE], 3, [None], keys=Ring())[0]
    assert isinstance(send, Send)
    # Nothing was sent to the first, and still it is told who takes over from it, and why.
    assert (send.endpoint, send.instead_of, send.after and send.after.reason) == (ELSEWHERE, GATEWAY[0], "rate_limit")


def test_a_passing_failure_keeps_the_key() -> None:
    ring = Ring("a", "b")
    steps, _ = play(GATEWAY[:1], 1, [Failure(error("overloaded")), None], keys=ring)
    assert keys_of(steps) == ["a", "sleep", "a"]


@pytest.mark.parametrize("after", [[], [Failure(error("rate_limit", retry_after=60))]])
def test_a_key_goes_back_when_the_work_is_cancelled(after: list[Failure]) -> None:
    ring = Ring("a", "b")
    policy = attempts(GATEWAY[:1], 3, keys=ring)
    next(policy)
    for outcome in after:
        policy.send(outcome)
    policy.close()
    assert ring.lent == [] and ring.told[-1][1] == "connection"


def test_pursuing_reports_success_and_closes_on_any_exception() -> None:
    ring = Ring("a")
    assert retry(attempts(GATEWAY[:1], 0, keys=ring), Interrupt(), lambda send: send.endpoint.api_key) == "a"
    assert ring.told == [("a", None)]

    def interrupted(_send: Send) -> str:
        raise Interrupted("stop")

    with pytest.raises(Interrupted):
        retry(attempts(GATEWAY[:1], 0, keys=ring), Interrupt(), interrupted)
    assert ring.lent == [] and ring.told[-1] == ("a", "connection")


# -- over several calls -----------------------------------------------------------------------------------------------


def test_one_that_failed_is_asked_last_until_it_has_rested() -> None:
    now = [0.0]
    health = Health(lambda: now[0])
    chain = [FIRST, SECOND]
    assert asked(play(chain, 0, [Failure(error("overloaded")), None], health=health)[0]) == ["a", "b"]
    assert asked(play(chain, 0, [None], health=health)[0]) == ["b"]
    now[0] = 61
    [send] = play(chain, 0, [None], health=health)[0]
    assert isinstance(send, Send) and (send.endpoint, send.is_return) == (FIRST, True)
    [send] = play(chain, 0, [None], health=health)[0]
    assert isinstance(send, Send) and (send.endpoint, send.is_return) == (FIRST, False)


def test_one_that_rests_is_still_better_than_nothing() -> None:
    health = Health()
    last = error("server_error")
    assert play([FIRST], 0, [Failure(last)], health=health)[1] is last
    assert asked(play([FIRST], 0, [None], health=health)[0]) == ["a"]
    health.failed(FIRST, "overloaded")
    assert asked(play([FIRST, SECOND], 0, [Failure(error("timeout")), None], health=health)[0]) == ["b", "a"]


def test_a_bad_question_does_not_speak_against_the_endpoint() -> None:
    health = Health()
    play([FIRST, SECOND], 0, [Failure(error("bad_request"))], health=health)
    play([FIRST, SECOND], 0, [Failure(error("truncated"), text_was_shown=True)], health=health)
    assert health.failure(FIRST) is None
