"""Signals of a command that runs turns: they cancel the turns, which then end cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator
from types import FrameType

from hermes.cli.failures import EXIT_INTERRUPTED
from hermes.scope import Interrupt


@contextlib.contextmanager
def cancelled_by_signals(interrupt: Interrupt) -> Generator[None]:
    """Ctrl-C and SIGTERM cancel what follows the interrupt. A second Ctrl-C ends the process at once."""

    def cancel(number: int, _frame: FrameType | None) -> None:
        if interrupt.cancelled and number == signal.SIGINT:
            interrupt.insist()  # its child processes must not outlive it
            if interrupt.is_starting:
                return  # a process is just being started; it is stopped as soon as possible, and the turn with it
            os._exit(EXIT_INTERRUPTED)
        interrupt.cancel("keyboard interrupt" if number == signal.SIGINT else "terminated")

    previous = {number: signal.signal(number, cancel) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
