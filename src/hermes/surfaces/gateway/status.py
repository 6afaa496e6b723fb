"""The state of a running gateway as a file in the home, for ``hermes gateway status`` and ``hermes doctor``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.base.config.files import read_document, write_private_document
from hermes.base.errors import HermesError

if TYPE_CHECKING:
    from hermes.surfaces.gateway.gateway import Gateway

_FILE = "gateway.json"


class GatewayStatus(msgspec.Struct):
    """A gateway that runs, or ran last."""

    pid: int
    started_at: float
    written_at: float
    #: Each with name, label, state, error, restarts and since.
    platforms: list[dict[str, Any]] = []

    @property
    def is_running(self) -> bool:
        """Whether its process is alive."""
        if not self.pid:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def write_status(gateway: Gateway, *, is_over: bool = False) -> None:
    """Write the state of a gateway down."""
    status = GatewayStatus(
        0 if is_over else os.getpid(),
        gateway.started_at,
        time.time(),
        [msgspec.to_builtins(one) for one in gateway.statuses],
    )
    write_private_document(gateway.host.home / _FILE, msgspec.to_builtins(status))


def read_status(home: Path) -> GatewayStatus | None:
    """The state that was written last; None when no gateway ever ran here."""
    try:
        return read_document(home / _FILE, GatewayStatus, "the state of the gateway", "delete it")
    except HermesError:
        return None
