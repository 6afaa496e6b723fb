"""Callback threads: a call that is late before its thread has begun."""

from __future__ import annotations

from contextvars import copy_context

from hermes.hooks.threads.callback_threads import CallbackThread
from hermes.hooks.threads.timed_call import TimedCall


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
