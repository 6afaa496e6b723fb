"""A server that takes what Langfuse takes, and hosts whose turns are sent to it."""

from __future__ import annotations

import base64
import os
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from hermes.base.config import Config
from hermes.bundled.observability.langfuse.settings import read_settings
from hermes.bundled.observability.langfuse.tracing import LangfuseTracing
from hermes.hooks.table import Hooks
from hermes.host import Host
from hermes.testing import OtlpReceiver
from support.otel_rig import HookContext, env_redactor
from support.trace_runs import Rig

KEY = "observability/langfuse"
PATH = "/api/public/otel/v1/traces"


class LangfuseServer(OtlpReceiver):
    """Takes OTLP at one address and with one pair of keys; everything else is refused."""

    def __init__(self, public_key: str, secret_key: str, *statuses: int) -> None:
        super().__init__(*statuses)
        self._authorization = "Basic " + base64.b64encode(f"{public_key}:{secret_key}".encode()).decode()

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == PATH and handler.headers.get("authorization") == self._authorization:
            super()._take(handler)
            return
        handler.rfile.read(int(handler.headers["content-length"]))
        self.requests.append((handler.path, {name.lower(): text for name, text in handler.headers.items()}))
        handler.send_response(401 if handler.path == PATH else 404)
        handler.send_header("content-length", "0")
        handler.end_headers()


class LangfuseRig(Rig):
    """Makes hosts whose turns are sent to a server, all through one queue that outlives them."""

    def __init__(self, home: Path, workdir: Path, stack: ExitStack, server: OtlpReceiver) -> None:
        super().__init__(home, workdir, stack)
        self.server = server
        self._tracing: LangfuseTracing | None = None
        self._queues = Hooks()

    @property
    def tracing(self) -> LangfuseTracing:
        if self._tracing is None:
            self._tracing = LangfuseTracing(read_settings(os.environ, {}), KEY, env_redactor())
            self.stack.callback(self._tracing.close)  # first, so that it outlives the host
            self.stack.callback(self._queues.close, 0)
        return self._tracing

    def host_for(self, config: Config, **options: Any) -> Host:
        tracing = self.tracing
        host = super().host_for(config, **options)
        tracing.join(HookContext(host.hooks, KEY, self._queues))
        return host

    def hooks(self) -> Hooks:
        """Hooks without a host, to be fired by hand."""
        hooks = Hooks()
        self.tracing.join(HookContext(hooks, KEY, self._queues))
        return hooks

    def collect(self) -> OtlpReceiver:
        """Everything that has ended is with the server."""
        self.tracing.flush(30)
        return self.server
