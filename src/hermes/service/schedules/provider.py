"""The scheduler of a plugin (``ctx.register_cron_scheduler``), which decides when schedules fire."""

from __future__ import annotations

import logging
import threading
from typing import Any

from hermes.base.errors import HermesError
from hermes.service.schedules.run import ScheduleHost
from hermes.service.schedules.scheduler import LONGEST_WAIT, Scheduler, announced
from hermes.service.schedules.store import Schedules

log = logging.getLogger("hermes.cron")

_BUILT_IN = ("", "builtin", "in-process", "inprocess")


def serve(
    host: ScheduleHost, scheduler: Scheduler, stop: threading.Event, *, adapters: Any = None, loop: Any = None
) -> None:
    """Fire schedules until ``stop`` is set: by the plugin that ``cron.provider`` names, or by the clock.

    A plugin that is missing, unavailable or fails is replaced by the clock, with a warning, so that schedules always
    have a trigger. ``adapters`` and ``loop`` are what a gateway has, for the plugin.
    """
    provider = find_provider(host)
    if provider is None or not _start(host, provider, scheduler, stop, adapters=adapters, loop=loop):
        scheduler.serve(stop)


def find_provider(host: ScheduleHost) -> Any | None:
    """The scheduler that ``cron.provider`` names; None for the built-in one."""
    wanted = host.config.cron.provider.strip()
    if wanted.lower() in _BUILT_IN:
        return None
    offer = host.plugins.choose("cron_scheduler", wanted)
    if isinstance(offer, str):
        log.warning("cron.provider: %s; the built-in scheduler is used", offer)
        return None
    provider = offer.value
    try:
        if provider.is_available():
            return provider
        log.warning("the scheduler %r is not available; the built-in one is used", wanted)
    except Exception as error:
        log.warning("the scheduler %r failed (%s: %s); the built-in one is used", wanted, type(error).__name__, error)
    return None


def _start(host: ScheduleHost, provider: Any, scheduler: Scheduler, stop: threading.Event, **more: Any) -> bool:
    """Run the plugin's scheduler until the stop. False when it failed, and the clock is needed after all."""
    schedules = Schedules(host.store)
    failed: list[BaseException] = []

    def fire(job_id: str) -> bool:
        """Run a schedule now, for the plugin. False when it is gone or running."""
        try:
            scheduler.fire(schedules.get(job_id))
        except HermesError as error:
            log.warning("schedule %s was not fired: %s", job_id, error)
            return False
        return True

    def start() -> None:
        try:
            provider.start(stop, **more, interval=60)
        except BaseException as error:
            failed.append(error)
            scheduler.wake()

    provider.fire_now = fire
    with announced(host.home):
        threading.Thread(target=start, name="cron-provider", daemon=True).start()
        _call(provider, "reconcile")
        known = scheduler.version()
        while not stop.is_set() and not failed:
            # What a process left that has died is continued here, whatever fires.
            scheduler.tick(only_begun=True)
            scheduler.wait(LONGEST_WAIT)
            known, before = scheduler.version(), known
            if known != before:
                _call(provider, "on_jobs_changed")
        if not failed:
            _call(provider, "stop")
            return True
    log.warning("the scheduler %r failed (%r); the built-in one is used", provider.name, failed[0])
    return False


def _call(provider: Any, method: str) -> None:
    """Call a method of the plugin; its failure is logged."""
    try:
        getattr(provider, method)()
    except Exception as error:
        log.warning("the scheduler %r failed in %s (%s: %s)", provider.name, method, type(error).__name__, error)
