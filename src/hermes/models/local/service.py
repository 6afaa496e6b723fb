"""The local model service: its endpoints, its wire, and a transport that starts the server when needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from hermes.base.config.schema.sections import LocalConfig
from hermes.base.errors import ConfigError
from hermes.base.scope import Interrupt
from hermes.models.endpoint import Endpoint
from hermes.models.local.endpoint import is_local, settled
from hermes.models.reply import Completion
from hermes.models.wires.wire import Delta, Transport, Wire

if TYPE_CHECKING:
    from hermes.models.local.install.weights import Weights
    from hermes.models.local.running import RunningServer


class LocalService:
    """The local model: its endpoints, its wire, and a transport that starts its server when needed.

    Hooks, records and errors see the local endpoint without its port and its key, which change with every start.
    """

    def __init__(self, transport: Transport, home: Path, settings: LocalConfig, env: Mapping[str, str]) -> None:
        self._transport = transport
        self._home = home
        self._settings = settings
        self._env = env
        self._server: RunningServer | None = None
        self._lock = threading.Lock()

    # -- endpoints ----------------------------------------------------------------------------------------------

    def is_usable(self) -> bool:
        """Whether it is enabled and installed, so that it can answer when no model is set up."""
        if not self._settings.enabled:
            return False
        try:
            self._find_model()
        except ConfigError:
            return False
        return True

    def settled(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """The endpoints, local ones with the facts of the model. ``ConfigError`` when a local one cannot run."""
        return [settled(one, self._find_model()) if is_local(one) else one for one in endpoints]

    def embedded_wire(self) -> Wire:
        """The wire of the embedded model."""
        from hermes.models.local.prompt.wire import EmbeddedWire

        return EmbeddedWire()

    # -- requests -----------------------------------------------------------------------------------------------

    def send(
        self,
        endpoint: Endpoint,
        wire: Wire,
        kwargs: Mapping[str, Any],
        *,
        interrupt: Interrupt,
        on_delta: Callable[[Delta], None] | None = None,
        on_wait: Callable[[], object] | None = None,
    ) -> Completion:
        """One request to the local server and its whole answer."""
        if on_wait is not None:
            on_wait()  # the server may have to be started
        reached = self.reached(endpoint, interrupt)
        return self._transport.send(reached, wire, kwargs, interrupt=interrupt, on_delta=on_delta)

    def reached(self, endpoint: Endpoint, interrupt: Interrupt) -> Endpoint:
        """A local endpoint with the address and the key of its server, which is started if it does not run."""
        with self._lock:
            server = self._server = self._server or self._find_server()
        state = server.reach(interrupt)
        # The server drops idle connections silently; on loopback a new one costs nothing.
        headers = {**endpoint.extra_headers, "connection": "close"}
        return replace(endpoint, base_url=state.base_url, api_key=state.key, extra_headers=headers)

    def close(self) -> None:
        """Stop using the server. It ends with its last user."""
        with self._lock:
            if self._server is not None:
                self._server.close()

    def _find_model(self) -> Weights:
        from hermes.models.local.install.weights import find_model

        return find_model(self._settings, self._env, self._home)

    def _find_server(self) -> RunningServer:
        from hermes.models.local.install.parts import find_runtime
        from hermes.models.local.install.weights import NotInstalled
        from hermes.models.local.running import RunningServer

        weights, runtime = self._find_model(), find_runtime(self._home)
        if runtime is None:
            raise NotInstalled
        return RunningServer(self._home, weights, runtime=runtime.folder, threads=self._settings.threads)
