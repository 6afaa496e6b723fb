"""Schedules under the names that published plugins import: jobs, and the base class of a scheduler."""

from __future__ import annotations

import threading
from collections.abc import Callable
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
    """``cron.jobs``: the schedules of the principal that the running work belongs to."""

    def call(method: str, *args: Any, **options: Any) -> Any:
        refuse_late_calls()
        with host_work():
            return getattr(cast("Any", host.services).schedules(), method)(*args, **options)

    def create_job(prompt: str, schedule: str, name: str | None = None, **options: Any) -> dict[str, Any]:
        """Make a schedule. Options: ``repeat``, ``deliver``, ``model``, ``provider``, ``workdir``."""
        return call("create", prompt, schedule, name, **options)

    def list_jobs(include_disabled: bool = False) -> list[dict[str, Any]]:
        """The schedules that fire, or all."""
        return call("list", include_disabled=include_disabled)

    def load_jobs() -> list[dict[str, Any]]:
        """All schedules."""
        return call("list", include_disabled=True)

    def get_job(job_id: str) -> dict[str, Any] | None:
        """One schedule."""
        return call("get", job_id)

    def update_job(job_id: str, updates: dict[str, Any]) -> dict[str, Any] | None:
        """Change a schedule."""
        return call("update", job_id, updates)

    def pause_job(job_id: str, reason: str | None = None) -> dict[str, Any] | None:
        """Fire a schedule no more."""
        return call("pause", job_id, reason)

    def resume_job(job_id: str) -> dict[str, Any] | None:
        """Fire a schedule again."""
        return call("resume", job_id)

    def trigger_job(job_id: str) -> dict[str, Any] | None:
        """Run a schedule at the next look of the scheduler."""
        return call("trigger", job_id)

    def remove_job(job_id: str) -> bool:
        """Delete a schedule."""
        return call("remove", job_id)

    named = (create_job, list_jobs, load_jobs, get_job, update_job, pause_job, resume_job, trigger_job, remove_job)
    return {function.__name__: function for function in named}
