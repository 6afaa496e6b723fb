"""Hop count of messages between agents: a limit that ends loops of agents which call each other."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from hermes.tools.peers.failures import PeerError

if TYPE_CHECKING:
    from google.protobuf.struct_pb2 import Struct

#: The name of the count in the metadata of a message.
HOPS = "hermes.hops"

#: Larger counts are cut to this, which is beyond every limit.
_MOST = 1_000_000

_hops: ContextVar[int] = ContextVar("hermes_hops", default=0)


def hops_of(metadata: Mapping[str, Any] | Struct | None) -> int:
    """The number of agents that the message with this metadata has passed. A malformed count is zero."""
    if metadata is None or HOPS not in metadata:
        return 0
    value: object = metadata[HOPS]
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return 0
    return int(min(max(value, 0), _MOST))


@contextlib.contextmanager
def hops_scope(hops: int) -> Generator[None]:
    """The block answers a message that has passed so many agents."""
    token = _hops.set(hops)
    try:
        yield
    finally:
        _hops.reset(token)


def next_hop(limit: int) -> int:
    """The count of a message sent now. Raises ``PeerError`` beyond the limit."""
    hops = _hops.get() + 1
    if hops > limit:
        raise PeerError(
            f"this message came by way of {hops - 1} agents, and a2a.max_hops allows {limit}: agents may be calling "
            f"each other in a circle. Answer without asking another agent"
        )
    return hops
