"""How long endpoints rest after they failed."""

from __future__ import annotations

from msgspec.structs import replace

from hermes.models.endpoint import Endpoint
from hermes.models.health import FIRST_COOLDOWN, LONGEST_COOLDOWN, Health

FIRST = Endpoint("http://first/v1", "a", api_key="one")
SECOND = Endpoint("http://second/v1", "b")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rest_of(health: Health, clock: Clock) -> float:
    """Seconds until the first endpoint comes first again."""
    start = clock.now
    while health.order([FIRST, SECOND])[0] is not FIRST:
        clock.now += 1
    seconds, clock.now = clock.now - start, start
    return seconds


def test_rests_double_up_to_the_longest() -> None:
    clock = Clock()
    health = Health(clock)
    rests: list[float] = []
    for _ in range(6):
        health.failed(FIRST, "overloaded")
        rests.append(rest_of(health, clock))
        clock.now += rests[-1]
    assert rests == [FIRST_COOLDOWN, 120, 240, 480, LONGEST_COOLDOWN, LONGEST_COOLDOWN]


def test_success_forgets_everything() -> None:
    clock = Clock()
    health = Health(clock)
    health.failed(FIRST, "overloaded")
    clock.now += FIRST_COOLDOWN
    health.failed(FIRST, "overloaded")
    assert health.failure(FIRST) == "overloaded"
    health.worked(FIRST)
    assert health.failure(FIRST) is None and rest_of(health, clock) == 0
    health.failed(FIRST, "overloaded")
    assert rest_of(health, clock) == FIRST_COOLDOWN


def test_many_turns_that_see_one_failure_count_once() -> None:
    clock = Clock()
    health = Health(clock)
    for _ in range(10):
        health.failed(FIRST, "overloaded")
    assert rest_of(health, clock) == FIRST_COOLDOWN


def test_it_is_the_model_at_its_address_that_rests_whatever_the_key() -> None:
    health = Health(Clock())
    health.failed(FIRST, "overloaded")
    assert health.failure(replace(FIRST, api_key="two")) == "overloaded"
    assert health.failure(replace(FIRST, model="other")) is None
    assert health.failure(SECOND) is None


def test_the_order_is_kept_among_equals() -> None:
    health = Health(Clock())
    third = Endpoint("http://third/v1", "c")
    assert health.order([FIRST, SECOND, third]) == [FIRST, SECOND, third]
    health.failed(SECOND, "overloaded")
    assert health.order([FIRST, SECOND, third]) == [FIRST, third, SECOND]
    health.failed(FIRST, "overloaded")
    assert health.order([FIRST, SECOND, third]) == [third, FIRST, SECOND]
