"""The choice of a surface's dispatcher: its own process, or the workers that share its database."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hermes.dispatch.local import LocalDispatcher
from hermes.dispatch.port import Dispatcher, TurnEntry
from hermes.host import Host


def make_dispatcher(
    host: Host, *, entries: Mapping[str, TurnEntry] | None = None, platforms: Collection[str] | None = None
) -> Dispatcher:
    """The dispatcher that the configuration says: ``worker.turns``, and ``journal.url``.

    The arguments are those of ``LocalDispatcher``; workers have the entries of all surfaces themselves.
    """
    if host.config.journal.url and host.config.worker.turns != "here":
        from hermes.dispatch.cluster.dispatcher import ClusterDispatcher

        return ClusterDispatcher(host, workspace=host.config.worker.workspace)
    return LocalDispatcher(host, entries=entries, platforms=platforms)
