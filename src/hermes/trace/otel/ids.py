"""Ids of spans that another process may end: made from the ids of the contract, so that both use the same."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry.sdk.trace.id_generator import RandomIdGenerator


class ContractIds(RandomIdGenerator):
    """Random ids, but for spans that are started within ``of``.

    A turn that waits for an answer may go on in another process. The requests that were made before are with the
    collector by then, inside a turn that has not ended: the process that ends it gives it the id they know it by.
    """

    def __init__(self, exporter: str) -> None:
        """``exporter`` makes the ids differ from those of others, which may send to the same place."""
        self._exporter = exporter
        self._wanted = threading.local()

    @contextmanager
    def of(self, *names: str) -> Generator[None]:
        """The id of the span that is started within, and of its trace when it begins one."""
        self._wanted.digest = hashlib.sha256("\0".join((self._exporter, *names)).encode("utf-8", "replace")).digest()
        try:
            yield
        finally:
            self._wanted.digest = None

    def generate_span_id(self) -> int:
        """The id of a span; never zero, which means none."""
        digest: bytes | None = getattr(self._wanted, "digest", None)
        return super().generate_span_id() if digest is None else int.from_bytes(digest[:8]) or 1

    def generate_trace_id(self) -> int:
        """The id of a trace."""
        digest: bytes | None = getattr(self._wanted, "digest", None)
        return super().generate_trace_id() if digest is None else int.from_bytes(digest[8:24]) or 1
