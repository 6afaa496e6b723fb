"""The choice of a surface's dispatcher: its own process, or the workers that share its database."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from hermes.base.config.schema.sections import Config
from hermes.base.errors import CredentialError, JournalError, NotConfigured
from hermes.host import Host
from hermes.service.dispatch.local import LocalDispatcher
from hermes.service.dispatch.port import Dispatcher, TurnEntry

#: Seconds that a surface waits for a database that is away before it says so to its client.
_SURFACE_SECONDS = 1.0


def runs_on_workers(config: Config) -> bool:
    """Whether the turns of surfaces run on workers."""
    return bool(config.journal.url) and config.worker.turns != "here"


def surface_config(config: Config) -> Config:
    """The configuration of a process that accepts turns and runs none: its clients learn soon of a missing database.

    A process that runs turns waits as long as ``journal.wait_seconds`` says.
    """
    if not runs_on_workers(config) or config.journal.wait_seconds <= _SURFACE_SECONDS:
        return config
    return replace(config, journal=replace(config.journal, wait_seconds=_SURFACE_SECONDS))


def check_provider(host: Host) -> None:
    """Raise ``ConfigError`` for a provider that does not exist, because every turn of the surface would fail.

    Without a model or a key a surface starts: what needs none is answered, and the turns say what is missing.
    """
    if not runs_on_workers(host.config):
        with contextlib.suppress(NotConfigured, CredentialError):
            host.models.conversation(provider=host.options.provider, model=host.options.model)


def missing_workers(host: Host) -> list[str]:
    """Warnings when the turns of a surface would wait for a worker, or run without a plugin that was asked for."""
    if not runs_on_workers(host.config):
        return []
    given = ", ".join(host.options.plugins)
    here = f"--plugin loads {given} in this process only: turns run on workers, which load what their settings say"
    return [*absent_workers(host), *([here] if given else [])]


def absent_workers(host: Host) -> list[str]:
    """The same for turns that are for workers, whatever the configuration says about other turns."""
    from hermes.journal.store.postgres.workers import list_workers, takes_turns

    try:
        workers = host.store.read(list_workers)
    except JournalError as error:
        return [f"it is not known whether a worker runs: {error}"]
    workspace = host.config.worker.workspace
    if any(takes_turns(worker, workspace) for worker in workers):
        return []
    return [no_worker_text(workspace)]


def no_worker_text(workspace: str) -> str:
    """The warning about turns that wait for a worker, with what to do."""
    which, option = (f" of the workspace {workspace!r}", f" --workspace {workspace}") if workspace else ("", "")
    return (
        f"no worker{which} runs, so turns are accepted and wait; start one with 'hermes worker{option}', "
        f"or set worker.turns to 'here' to run them in this process"
    )


def make_dispatcher(
    host: Host,
    *,
    entries: Mapping[str, TurnEntry] | None = None,
    platforms: Collection[str] | None = None,
    slots: int = 0,
) -> Dispatcher:
    """The dispatcher that the configuration says: ``worker.turns``, and ``journal.url``.

    The arguments are those of ``LocalDispatcher``; workers have the entries of all surfaces themselves.
    """
    if runs_on_workers(host.config):
        from hermes.service.dispatch.cluster.dispatcher import ClusterDispatcher

        return ClusterDispatcher(host, workspace=host.config.worker.workspace)
    return LocalDispatcher(host, entries=entries, platforms=platforms, slots=slots)
