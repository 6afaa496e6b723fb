"""Whether a person sits at the terminal."""

from __future__ import annotations

import sys


def can_be_asked() -> bool:
    """Whether a person can see a question on stderr and answer it on stdin."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # a stream that is missing or closed
        return False


def is_at_terminal() -> bool:
    """Whether a person types on stdin and reads stdout."""
    try:
        return sys.stdin.isatty() and sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False
