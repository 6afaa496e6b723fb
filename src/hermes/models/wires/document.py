"""Parser for responses that are one JSON document and no model answer, such as a list of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from hermes.models.endpoint import Endpoint
from hermes.models.failures import malformed
from hermes.models.reply import Completion, Reply
from hermes.models.wires.wire import Delta


class DocumentParser:
    """Collects a document and has it read when it has ended."""

    done = False

    def __init__(self, endpoint: Endpoint, read: Callable[[bytes], Completion], *, name: str, longest: int) -> None:
        self._endpoint = endpoint
        self._read = read
        self._name = name
        self._longest = longest
        self._body = bytearray()

    def feed(self, data: bytes) -> Sequence[Delta]:
        """Take the next bytes."""
        self._body += data
        if len(self._body) > self._longest:
            raise malformed(self._endpoint, f"{self._name} does not end")
        return ()

    def finish(self) -> Completion:
        """What the document says."""
        return self._read(bytes(self._body))

    def partial(self) -> Reply:
        """Nothing of it is of use to a conversation."""
        return Reply()


def decoded(body: bytes) -> Any:
    """The JSON in a body; ``None`` when it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
