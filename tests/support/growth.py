"""How the work for a text grows with its length, in CPU time of this thread: other load and waiting do not count.

The only measurement outside the benchmarks. It looks for work that grows with the square of the length: 64 times as
much for eight times the length. The bound is far from both, and a measurement that was disturbed is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable

_LONGER = 8
#: Between 8 and 64.
_BOUND = 28
#: Seconds too short to be measured.
_NOTHING = 0.01
_ATTEMPTS = 5


def assert_grows_with_the_length(work: Callable[[int], Callable[[], object]], size: int) -> None:
    """``work(size)`` prepares work and returns it; eight times the size may take eight times as long, not 64 times."""
    short, long = work(size), work(_LONGER * size)
    short()  # patterns are compiled, modules imported
    least_short, least_long = _seconds(short), _seconds(long)
    for _ in range(_ATTEMPTS):
        if least_long < _BOUND * least_short + _NOTHING:
            return
        # The least time is the least disturbed one: both can only become more accurate.
        least_short, least_long = min(least_short, _seconds(short)), min(least_long, _seconds(long))
    raise AssertionError(
        f"{_LONGER} times the length took {least_long:.4f} s of CPU instead of {least_short:.4f} s: "
        f"more than {_BOUND} times as long"
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
