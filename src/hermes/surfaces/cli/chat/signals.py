"""Signals of a command: handled while it works; those of a command that runs turns end the turns cleanly."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Generator
from types import FrameType

from hermes.base.scope import Interrupt
from hermes.surfaces.cli.failures import EXIT_INTERRUPTED


@contextlib.contextmanager
def handled_signals(handler: Callable[[int, FrameType | None], None], *numbers: int) -> Generator[None]:
    """While the block runs, these signals call the handler; without numbers, SIGINT and SIGTERM."""
    before = {number: signal.signal(number, handler) for number in numbers or (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


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

    with handled_signals(cancel, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield
