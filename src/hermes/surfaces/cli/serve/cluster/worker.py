"""``hermes worker``: a process that runs turns which surfaces submit, until it is stopped."""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from hermes.base.config.schema.sections import Config
from hermes.base.errors import HermesError
from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.arguments import PLUGIN, VERBOSE, Argument, CommandSpec, port_number, positive_number
from hermes.surfaces.cli.failures import handled_signals, serving_packages
from hermes.surfaces.cli.terminal import print_warnings

if TYPE_CHECKING:
    from hermes.host import Host
    from hermes.service.dispatch.cluster.worker import Worker
    from hermes.service.dispatch.metrics import TurnMetrics
    from hermes.service.dispatch.port import TurnEntry

_EXAMPLES = """
examples:
  hermes worker                       with the settings of the section 'worker'
  hermes worker --slots 16 --health-port 9400
  hermes worker --workspace gpu       takes only the turns that were submitted for this workspace

SIGTERM drains it: no more turns are taken, those that run get worker.drain_seconds to end, and other workers continue
what is left. The exit code is 0 then, and 75 when other workers have removed it.
"""
#: Platform -> the function that makes what its surface does around its turns.
_ENTRIES = {
    "web": "hermes.surfaces.web.chat:page_entry",
    "api_server": "hermes.surfaces.cli.serve.cluster.worker:api_entry",
    "a2a": "hermes.surfaces.a2a.server.entry:task_entry",
    "cron": "hermes.service.dispatch.scheduled:scheduled_entry",
    "cli": "hermes.surfaces.cli.chat.on_workers:remote_entry",
}
#: All others are chats of the gateway, which ask the owner unless they may approve.
_CHAT_ENTRY = "hermes.surfaces.gateway.chats.questions:chat_entry"


def _work(args: argparse.Namespace) -> int:
    """Work until a signal comes."""
    home, redactor, loaded = open_home(verbose=args.verbose)
    config = loaded.config
    require_cluster(config)
    from msgspec.structs import replace

    from hermes.host import Host, HostOptions
    from hermes.service.dispatch.cluster.worker import Worker

    settings = config.worker
    options = HostOptions(plugins=args.plugin, platform="worker", unattended=True, hide_memory=True)
    with Host(home, config, options, redactor=redactor) as host:
        print_warnings((*loaded.warnings, *host.notices), redactor.redact)
        slots, port = args.slots or settings.slots, args.health_port
        metrics = _metrics() if (settings.health_port if port is None else port) else None
        workspace = settings.workspace if args.workspace is None else args.workspace
        worker = Worker(
            host,
            replace(settings, slots=slots, workspace=workspace),
            entry_for=_surface_entries(host),
            metrics=metrics,
        )
        with _stop_signal() as stopped, _answering(worker, metrics, settings.health_host, port or settings.health_port):
            worker.start()
            print(f"worker {worker.id} takes turns, {slots} at a time", flush=True)
            while not stopped.is_set() and not worker.is_draining.is_set():
                stopped.wait(0.2)
            is_done = worker.stop(settings.drain_seconds)
    if not is_done:
        print("some turns had not ended; other workers continue them", file=sys.stderr, flush=True)
        os._exit(0)  # threads that still run a turn must not keep the process
    return 0


def _surface_entries(host: Host) -> Callable[[str], TurnEntry]:
    """The entries of all surfaces by platform, each loaded when a turn needs it."""

    @cache
    def entry_for(platform: str) -> TurnEntry:
        module, _, name = _ENTRIES.get(platform, _CHAT_ENTRY).partition(":")
        return getattr(import_module(module), name)(host)

    return entry_for


def api_entry(host: Host) -> TurnEntry:
    """What the API does around its turns."""
    from hermes.base.http_server.principals import API_KEY_VARIABLE, read_principals
    from hermes.surfaces.openai_api.runs.acceptance import ApiRuns

    return ApiRuns(host, read_principals(host.config, os.environ, host.redactor, API_KEY_VARIABLE)).entered


def require_cluster(config: Config) -> str:
    """The address of the database that a cluster shares, or an error that says what to set."""
    url = config.journal.url
    if not url:
        raise HermesError(
            "workers share a PostgreSQL database, and journal.url is not set; run: "
            "hermes config set journal.url postgresql://USER@HOST/DATABASE (docs/cluster.md)"
        )
    return url


@contextmanager
def _stop_signal() -> Generator[threading.Event]:
    stopped = threading.Event()

    def stop(_number: int, _frame: object) -> None:
        if stopped.is_set():
            os._exit(1)  # the second one insists
        stopped.set()

    with handled_signals(stop):
        yield stopped


def _metrics() -> TurnMetrics:
    with serving_packages("metrics"):
        from hermes.service.dispatch.metrics import TurnMetrics

        return TurnMetrics()


@contextmanager
def _answering(worker: Worker, metrics: TurnMetrics | None, host: str, port: int) -> Generator[None]:
    """Health, readiness and metrics while the block runs, when they are wanted."""
    if metrics is None:
        yield
        return
    from hermes.base.http_server.health import HealthServer

    metrics.gauge("hermes_turns_running", "Turns that run here.", lambda: worker.running)
    metrics.gauge("hermes_worker_ready", "Whether it takes turns.", lambda: not worker.problems())
    server = HealthServer(worker.problems, metrics.text, host, port)
    server.start()
    try:
        yield
    finally:
        server.close()


_SLOTS = "turns that run at the same time (worker.slots)"
_WORKSPACE = "name of the workspace whose turns it takes (worker.workspace)"
_HEALTH = "serve health, readiness and metrics on this port"

COMMAND = CommandSpec(
    run=_work,
    arguments=(
        Argument("--slots N", _SLOTS, type=positive_number),
        Argument("--workspace NAME", _WORKSPACE),
        Argument("--health-port N", _HEALTH, type=port_number),
        PLUGIN,
        VERBOSE,
    ),
    epilog=_EXAMPLES,
)
