"""Which of several credentials is used next."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from hermes.config.sections import PoolStrategy
from hermes.models.credentials.credential import Credential


def usable(credentials: Sequence[Credential], now: float) -> list[Credential]:
    """Those that may be used now.

    The only one that is left is used even while it should rest: there is none to spare it for, and how long to wait
    before another try is then a question of retries.
    """
    alive = [one for one in credentials if one.status != "dead"]
    return alive if len(alive) == 1 else [one for one in alive if not one.is_resting(now)]


def choose(credentials: Sequence[Credential], strategy: PoolStrategy, in_use: Mapping[str, int]) -> Credential:
    """One of them by strategy, among those in use by the fewest, so that parallel work spreads over the keys."""
    fewest = min(in_use.get(one.id, 0) for one in credentials)
    free = [one for one in credentials if in_use.get(one.id, 0) == fewest]
    match strategy:
        case "fill_first":
            return free[0]
        case "round_robin":
            return min(free, key=lambda one: one.last_used_at)
        case "least_used":
            return min(free, key=lambda one: one.request_count)
        case "random":
            return random.choice(free)
