"""Callback threads: a call that is late before its thread has begun, or that forks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

from hermes.hooks.threads.callback_threads import CallbackThread
from hermes.hooks.threads.timed_call import TimedCall
from support.waiting import wait_until


class _SlowThread(CallbackThread):
    """A thread that the system does not run before the call is late."""

    def _serve(self) -> None:
        pass


def test_a_call_that_is_late_before_its_thread_has_taken_it_is_given_up() -> None:
    thread = _SlowThread("slow")
    thread.join(60)
    assert thread.run(lambda: None, {}, TimedCall("culprit", 0.01), copy_context(), None) is False
    assert thread.call.given_up


def test_waking_a_thread_that_is_being_woken_changes_nothing() -> None:
    thread = CallbackThread("idle")
    thread._wake()  # pyright: ignore[reportPrivateUsage]
    thread._wake()  # pyright: ignore[reportPrivateUsage]
    assert thread.run(lambda: 7, {}, TimedCall("plugin"), copy_context(), None)
    assert thread.value == 7
    thread.end()
    thread.join(60)


def _fork(then: Callable[[], Any]) -> int:
    pid = os.fork()
    return pid or then()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("then", [lambda: 0, lambda: 1 / 0, sys.exit], ids=["returns", "raises", "exits"])
def test_the_child_of_a_callback_that_forks_ends_with_the_callback(then: Callable[[], Any]) -> None:
    """It has no other thread: it would wait for its next call forever, and keep the pipes of the program open."""
    thread = CallbackThread("forks")
    assert thread.run(_fork, {"then": then}, TimedCall("culprit"), copy_context(), None)
    child, ended = thread.value, list[int]()

    def has_ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        ended.extend([status] if pid else [])
        return bool(ended)

    wait_until(has_ended, "the child ends")
    assert ended == [0]
    thread.end()
    thread.join(60)
