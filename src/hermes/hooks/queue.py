"""Bounded background queue: runs work in order on one daemon thread, so that no turn waits for it.

``register_hook(background=True)`` delivers through it, memory providers are called through it, and exporters send
through it. It is thread-safe and fork-safe.
"""

from __future__ import annotations

import contextvars
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from hermes.base.scope import Interrupt, current_scope
from hermes.hooks.callback import FailureCauses, describe

log = logging.getLogger("hermes.hooks")

#: What ``put`` does when the queue is full: drop the new item, or wait for room (backpressure).
Overflow = Literal["drop", "block"]

CAPACITY = 1000
#: How long ``put`` waits for room. A consumer that is stuck must not stop a turn for good.
BLOCK_SECONDS = 5.0
_JOIN_SECONDS = 1.0

#: When it was put, the context variables of the thread that put it, and the call.
_Item = tuple[float, contextvars.Context, Callable[[], object]]
_put_at: contextvars.ContextVar[float | None] = contextvars.ContextVar("hermes_queue_put_at", default=None)


class BackgroundQueue:
    """A bounded queue of calls and the daemon thread that makes them, started with the first item.

    An item that raises is logged and counted in ``failed``; the next one runs. An item for which there is no room is
    counted in ``dropped``; the first of them is a warning. Each item runs with the context variables of the thread
    that put it, but cancelling the turn it came from does not cancel it. A forked process starts with an empty queue:
    what is waiting belongs to its parent.
    """

    __slots__ = (
        "__weakref__",
        "_causes",
        "_changed",
        "_closed",
        "_discarded",
        "_done",
        "_has_warned",
        "_items",
        "_missed",
        "_put",
        "_stalled_at",
        "_thread",
        "block_seconds",
        "capacity",
        "dropped",
        "failed",
        "name",
    )

    def __init__(self, name: str, *, capacity: int = CAPACITY, block_seconds: float = BLOCK_SECONDS) -> None:
        self.name = name
        self.capacity = capacity
        self.block_seconds = block_seconds
        self._closed = False
        self._reset()
        _queues.add(self)

    def _reset(self) -> None:
        """Empty, with locks that no thread holds and without a thread."""
        self.dropped = 0
        self.failed = 0
        self._causes = FailureCauses()
        self._has_warned = False
        self._changed = threading.Condition()
        self._items: deque[_Item] = deque()
        #: Sequence numbers: how many items were accepted, are done, and what a flush waited for in vain.
        self._put = self._done = self._missed = 0
        #: The value of ``_done`` when a ``put`` waited for room in vain.
        self._stalled_at = -1
        self._discarded = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread now. For items first put while the process exits, when no thread can be started."""
        with self._changed:
            self._start()

    def put(self, work: Callable[[], object], *, overflow: Overflow = "drop") -> bool:
        """Queue a call; False when it was dropped, because the queue is full or closed.

        With ``overflow="block"`` a full queue makes the caller wait up to ``block_seconds`` for room. Once it waited in
        vain, later calls do not wait until the thread has finished another item.
        """
        put_at, context = time.time(), contextvars.copy_context()
        with self._changed:
            if len(self._items) >= self.capacity and (overflow == "drop" or not self._wait_for_room()):
                return self._drop(f"{self.capacity} items are waiting")
            if self._closed:
                return self._drop("it is closed", logging.DEBUG)
            try:
                self._start()
            except RuntimeError as error:  # the interpreter is shutting down, or the system has no more threads
                return self._drop(str(error))
            self._items.append((put_at, context, work))
            self._put += 1
            self._changed.notify_all()
        return True

    def flush(self, seconds: float) -> bool:
        """Wait until everything queued so far is done; False when it is not done by the deadline."""
        with self._changed:
            target = self._put
            if self._done < target and seconds > 0 and threading.current_thread() is not self._thread:
                self._changed.wait_for(lambda: self._done >= target or self._discarded, seconds)
                self._missed = target  # until it is done
            return self._done >= target

    @property
    def is_late(self) -> bool:
        """Whether a flush has missed its deadline and what it waited for is still not done."""
        return self._done < self._missed

    @property
    def pending(self) -> int:
        """How many items are waiting or running."""
        return self._put - self._done

    @property
    def item_time(self) -> float:
        """When the item that runs now was put, in seconds since the epoch; outside of one, the time now."""
        put_at = _put_at.get()
        return time.time() if put_at is None else put_at

    def close(self, seconds: float = 0.0) -> bool:
        """Accept no more items, wait for those queued, drop what is not done by the deadline, end the thread.

        True when everything was done. A queue that is late is not waited for a second time, and a thread that is stuck
        in an item is left behind.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        is_done = not self.is_late and self.flush(seconds)
        with self._changed:
            left = len(self._items)
            self._items.clear()
            self._discarded = True
            self.dropped += left
            self._changed.notify_all()
            thread, is_idle = self._thread, self._done + left == self._put
        if thread is not None and is_idle and thread is not threading.current_thread():
            thread.join(_JOIN_SECONDS)
        return is_done

    # -- with the lock held -------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._thread is None and not self._closed:
            thread = threading.Thread(target=self._serve, name=f"hermes-queue {self.name}", daemon=True)
            thread.start()
            self._thread = thread

    def _wait_for_room(self) -> bool:
        if self._closed or self._stalled_at == self._done or threading.current_thread() is self._thread:
            return False
        self._changed.wait_for(lambda: self._closed or len(self._items) < self.capacity, self.block_seconds)
        has_room = len(self._items) < self.capacity
        self._stalled_at = -1 if has_room else self._done
        return has_room

    def _drop(self, reason: str, level: int = logging.WARNING) -> bool:
        self.dropped += 1
        log.log(
            logging.DEBUG if self._has_warned else level,
            "background queue %r: %s; the event is dropped, and so are others until that changes",
            self.name,
            reason,
        )
        self._has_warned = self._has_warned or level == logging.WARNING
        return False

    # -- the thread ---------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while (item := self._next()) is not None:
            put_at, context, work = item
            try:
                context.run(_run, work, put_at)
            except BaseException as error:  # even an exit asked for by one item must not cost those that follow
                self._report(error)
            del item, context, work  # what an item holds is not kept while the thread waits
            with self._changed:
                if self._thread is not threading.current_thread():
                    return  # the item has forked, and this is the child
                self._done += 1
                self._changed.notify_all()

    def _next(self) -> _Item | None:
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closed)
            if not self._items:
                return None
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def _report(self, error: BaseException) -> None:
        with self._changed:
            self.failed += 1
            level = logging.WARNING if self._causes.is_new(error) else logging.DEBUG
        log.log(level, "background queue %r: an item failed: %s", self.name, describe(error))


def _run(work: Callable[[], object], put_at: float) -> object:
    """The item keeps the ids of its turn, but cancelling that turn does not cancel the item."""
    _put_at.set(put_at)
    scope = current_scope.get()
    if scope is not None:
        current_scope.set(replace(scope, interrupt=Interrupt()))
    return work()


_queues: weakref.WeakSet[BackgroundQueue] = weakref.WeakSet()


def _reset_after_fork() -> None:
    for queue in list(_queues):
        queue._reset()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_reset_after_fork)
