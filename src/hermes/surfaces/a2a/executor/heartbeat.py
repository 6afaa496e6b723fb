"""Heartbeat: shows a platform the number of running tasks and the current one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Protocol

log = logging.getLogger("hermes.a2a")

_BRIEF_CHARS = 60
_PUSH_SECONDS = 3.0

#: The event loop keeps only weak references to its tasks.
_pushes: set[asyncio.Task[None]] = set()


class Heartbeat(Protocol):
    """The object that is kept up to date.

    Three optional methods are called: ``push()``, plain or asynchronous, to inform the platform at once, and
    ``record_success()`` and ``record_error(class_name)`` after each turn.
    """

    active_tasks: int
    current_task: str


def brief(text: str) -> str:
    """The first words of a task."""
    line = " ".join(text.split())
    return line if len(line) <= _BRIEF_CHARS else line[:_BRIEF_CHARS] + "..."


@contextmanager
def busy(heartbeat: Heartbeat | None, text: str) -> Generator[None]:
    """Show the task while the block runs. Failures of the heartbeat are ignored."""
    if heartbeat is None:
        yield
        return
    with _harmless(heartbeat):
        heartbeat.active_tasks = getattr(heartbeat, "active_tasks", 0) + 1
        heartbeat.current_task = brief(text)
        _push_soon(heartbeat)
    try:
        yield
    except Exception as error:
        _record(heartbeat, "record_error", type(error).__name__)
        raise
    else:
        _record(heartbeat, "record_success")
    finally:
        with _harmless(heartbeat):
            heartbeat.active_tasks = max(getattr(heartbeat, "active_tasks", 0) - 1, 0)
            if heartbeat.active_tasks == 0:
                heartbeat.current_task = ""
            _push_soon(heartbeat)


@contextmanager
def _harmless(heartbeat: Heartbeat) -> Generator[None]:
    try:
        yield
    except Exception:
        log.debug("the heartbeat %s could not be updated", type(heartbeat).__name__, exc_info=True)


def _record(heartbeat: Heartbeat, method: str, *arguments: str) -> None:
    with _harmless(heartbeat):
        record = getattr(heartbeat, method, None)
        if callable(record):
            record(*arguments)


def _push_soon(heartbeat: Heartbeat) -> None:
    """Push in the background: the turn does not wait for a slow platform."""
    push = getattr(heartbeat, "push", None)
    if callable(push):
        task = asyncio.get_running_loop().create_task(_push(push))
        _pushes.add(task)
        task.add_done_callback(_pushes.discard)


async def _push(push: Callable[[], Any]) -> None:
    import inspect

    try:
        outcome = push()
        if inspect.isawaitable(outcome):
            await asyncio.wait_for(outcome, _PUSH_SECONDS)
    except Exception:
        log.debug("the heartbeat was not pushed", exc_info=True)
