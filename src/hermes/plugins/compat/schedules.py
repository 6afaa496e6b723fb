"""Schedules under the names that published plugins import: jobs, and the base class of a scheduler."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from hermes.hooks.threads.timed_call import host_work, refuse_late_calls

if TYPE_CHECKING:
    from hermes.plugins.compat.names import Names
    from hermes.plugins.services import PluginHost


class CronScheduler:
    """Decides when schedules fire; ``cron.provider`` selects one by its ``name``. What a run is stays with the host."""

    name: str = ""
    #: Runs a schedule now; set by the host that uses the scheduler.
    fire_now: Callable[[str], bool] | None = None

    def is_available(self) -> bool:
        """Whether it can work here, found out without a network call."""
        return True

    def start(self, stop_event: threading.Event, *, adapters: Any = None, loop: Any = None, interval: int = 60) -> None:
        """Fire schedules until ``stop_event`` is set; or arrange that something else does, and return."""
        raise NotImplementedError(f"{self.name} does not implement start")

    def stop(self) -> None:
        """Release what it holds; the event is set already."""

    def on_jobs_changed(self) -> None:
        """A schedule was made, changed or removed."""

    def reconcile(self) -> None:
        """Bring what it has arranged in line with the schedules there are."""

    def recover_interrupted(self) -> int:
        """How many runs of dead processes were closed: none, since the host continues them."""
        return 0

    def fire_due(self, job_id: str, *, adapters: Any = None, loop: Any = None) -> bool:
        """Run a schedule now. False when it is gone, or running already."""
        return self.fire_now is not None and self.fire_now(job_id)


def jobs(host: PluginHost) -> Names:
    """``cron.jobs``: the schedules of the principal that the running work belongs to, as ``PluginJobs`` has them."""

    def call(method: str, *args: Any, **options: Any) -> Any:
        refuse_late_calls()
        with host_work():
            return getattr(cast("Any", host.services).schedules(), method)(*args, **options)

    def list_jobs(include_disabled: bool = False) -> Any:
        return call("list", include_disabled=include_disabled)

    methods = ("create", "get", "update", "pause", "resume", "trigger", "remove")
    named = {f"{method}_job": partial(call, method) for method in methods}
    return {**named, "list_jobs": list_jobs, "load_jobs": partial(list_jobs, include_disabled=True)}
