"""How many agents a message has passed, so that agents that call each other in a circle come to an end."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Container, Generator
from contextvars import ContextVar
from typing import Any, Protocol

from hermes.peers.failures import PeerError

#: Where a message's metadata has the count.
HOPS = "hermes.hops"

#: A count beyond every limit; larger ones say nothing more.
_MOST = 1_000_000

_hops: ContextVar[int] = ContextVar("hermes_hops", default=0)


class Metadata(Container[str], Protocol):
    """The metadata of a message: a mapping, or the SDK's structure, which is none but behaves like one."""

    def __getitem__(self, name: str, /) -> Any: ...


def hops_of(metadata: Metadata | None) -> int:
    """How many agents the message with this metadata has passed. What is no count counts as none."""
    if metadata is None or HOPS not in metadata:
        return 0
    value = metadata[HOPS]
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return 0
    return int(min(max(value, 0), _MOST))


@contextlib.contextmanager
def arrived(hops: int) -> Generator[None]:
    """What runs in the block answers a message that has passed so many agents."""
    token = _hops.set(hops)
    try:
        yield
    finally:
        _hops.reset(token)


def next_hop(limit: int) -> int:
    """The count of a message sent now. Raises ``PeerError`` when that is beyond the limit."""
    hops = _hops.get() + 1
    if hops > limit:
        raise PeerError(
            f"this message came by way of {hops - 1} agents, and a2a.max_hops allows {limit}: agents may be calling "
            f"each other in a circle. Answer without asking another agent"
        )
    return hops
