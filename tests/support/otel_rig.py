"""Hosts whose turns are traced to a receiver."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hermes.base.config import Config
from hermes.base.config.secrets import home_secrets
from hermes.base.sanitize import Redactor
from hermes.bundled.observability.otel.pipeline import OtelTracing, OwnPipeline
from hermes.bundled.observability.otel.settings import read_settings
from hermes.contract.events import Event
from hermes.hooks.queue import BackgroundQueue
from hermes.hooks.table import Hooks
from hermes.host import Host
from hermes.testing import OtlpReceiver
from support.trace_runs import Rig

KEY = "observability/otel"


def env_redactor() -> Redactor:
    """Knows the secrets of the environment."""
    return Redactor(home_secrets(Path("no-home"), Config(), os.environ))


class HookContext:
    """As much of ``ctx`` as joining the hooks takes."""

    def __init__(self, hooks: Hooks, key: str = KEY, queues: Hooks | None = None) -> None:
        self._hooks = hooks
        self._key = key
        self._queues = queues or hooks

    def register_hook(self, name: str, callback: Callable[..., Any]) -> None:
        assert self._hooks.subscribe(name, self._key, callback)

    def register_event_sink(self, sink: Callable[[Event], object], **options: Any) -> None:
        assert self._hooks.subscribe_events(self._key, sink, **options)

    def background_queue(self, capacity: int | None = None) -> BackgroundQueue:
        return self._queues.queue(self._key, capacity)

    def register_middleware(self, kind: str, callback: Callable[..., Any]) -> None:
        assert self._hooks.add_middleware(kind, self._key, callback)


class TracedRig(Rig):
    """Makes hosts whose turns are traced to a receiver, by a pipeline that no other test shares."""

    def __init__(self, home: Path, workdir: Path, stack: ExitStack, receiver: OtlpReceiver) -> None:
        super().__init__(home, workdir, stack)
        self.receiver = receiver
        self.pipeline: OwnPipeline | None = None

    def host_for(self, config: Config, **options: Any) -> Host:
        self._start()  # first, so that it outlives the host
        host = super().host_for(config, **options)
        self.watch(host.hooks)
        return host

    def hooks(self) -> Hooks:
        """Hooks without a host, to be fired by hand."""
        hooks = Hooks()
        self.watch(hooks)
        return hooks

    def watch(self, hooks: Hooks) -> None:
        OtelTracing(self._start, read_settings(os.environ, {}), env_redactor()).join(HookContext(hooks))

    def _start(self) -> OwnPipeline:
        if self.pipeline is None:
            self.pipeline = OwnPipeline(read_settings(os.environ, {}), KEY, "1.0")
            self.stack.callback(self.pipeline.close)
        return self.pipeline

    def collect(self) -> OtlpReceiver:
        """Everything that has ended is with the receiver."""
        assert self.pipeline is not None
        self.pipeline.flush(10)
        return self.receiver
