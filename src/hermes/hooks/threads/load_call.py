"""LoadCall: a step of loading a plugin, given up when it is stuck or endless, not when the machine is busy."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from hermes.hooks.threads.timed_call import TimedCall

log = logging.getLogger("hermes.hooks")

#: A thread that has computed for less than this part of the time that has passed is stuck. A healthy import on a very
#: busy machine has more, a loop that sleeps and looks again has less.
_WORKING = 0.01


class LoadCall(TimedCall):
    """The import of a plugin, or its ``register``.

    Its limit is a period: whenever that has passed, the call goes on if its thread has worked in the meantime and has
    not yet computed for that long in all. So what a busy machine delays is waited for, and what hangs is not.
    """

    __slots__ = ("_computed", "_cpu", "_period", "reason")

    def __init__(self, plugin: str, limit: float, cpu: Callable[[int], float] | None = None) -> None:
        super().__init__(plugin, limit)
        self._period = limit
        self._cpu = cpu or thread_seconds
        #: Seconds that the thread had computed when the last period ended.
        self._computed = 0.0
        #: Why it is late.
        self.reason = ""

    @property
    def left(self) -> float:
        """Seconds that are left of this period, or of the next one when it may go on."""
        left = super().left
        # A turn that is cancelled shortens the limit: then nothing is waited for.
        if left > 0 or self.limit < self._period:
            self.reason = f"no answer within {self.limit:g} s"
            return left
        computed = self._cpu(self.thread)
        if computed >= self._period:
            self.reason = f"it has computed for {self._period:g} s"
        elif computed - self._computed < self._period * _WORKING:
            self.reason = f"it has done nothing for {self._period:g} s"
        else:
            log.warning("plugin %r still loads after %g s; it computes, so it is waited for", self.plugin, self.limit)
            self._computed = computed
            self.limit += self._period
            return left + self._period
        return left


def thread_seconds(thread: int) -> float:
    """Seconds that a thread has computed; of the whole process where threads have no clock that others can read."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    if clock_of is None:
        return time.process_time()
    return time.clock_gettime(clock_of(thread)) if thread else 0.0
