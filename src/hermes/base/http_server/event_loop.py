"""The event loop of servers: uvloop where it is installed, because it takes less CPU, and else that of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the loop; None for that of asyncio."""
    try:
        import uvloop  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return cast("Any", uvloop).new_event_loop
