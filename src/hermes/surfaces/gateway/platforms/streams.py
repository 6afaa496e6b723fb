"""Streams of platform adapters that keep a connection of their own."""

from __future__ import annotations

import asyncio
import contextlib


def abort_stream(writer: asyncio.StreamWriter) -> None:
    """Drop a connection without waiting, also one that is closed already."""
    # The TLS transport of Python 3.11.2 forgets its protocol when it is closed a second time, and fails here then.
    with contextlib.suppress(AttributeError):
        writer.transport.abort()
