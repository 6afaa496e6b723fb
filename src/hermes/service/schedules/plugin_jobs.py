"""Schedules for plugins, in the shape that published plugins know them: jobs as dictionaries."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from hermes.base.config.principals import default_workspace, make_private
from hermes.base.config.schema.sections import Config
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import PluginError
from hermes.base.scope import current_principal, current_scope
from hermes.journal.store.port import Store
from hermes.service.schedules.delivery import chat_of_session, destination
from hermes.service.schedules.schedule import Schedule, ScheduleError
from hermes.service.schedules.store import Schedules, new_schedule
from hermes.service.schedules.timing import TimingError, local_zone, parse_timing, zone_of

log = logging.getLogger("hermes.plugins")

#: What published plugins may ask for and a run cannot do.
_NOT_OFFERED = ("script", "no_agent", "base_url")


class PluginJobs:
    """The schedules of the principal that the running work belongs to; outside of any work, those of the owner."""

    def __init__(self, store: Store, home: Path, config: Config, cwd: Path) -> None:
        self._schedules = Schedules(store)
        self._home = home
        self._config = config
        self._cwd = cwd

    def create(self, prompt: str, schedule: str, name: str | None = None, **options: Any) -> dict[str, Any]:
        """Make a schedule."""
        self._check(options)
        repeat = options.get("repeat")
        mask = home_redactor(self._home).mask_known
        made = new_schedule(
            name=mask(name or ""),
            prompt=mask(prompt),
            timing=schedule,
            zone=self._config.cron.timezone or local_zone(),
            cwd=self._folder(options.get("workdir")),
            now=time.time(),
            principal=current_principal(),
            source="plugin",
            deliver=self._deliver(options.get("deliver")),
            model=options.get("model") or "",
            provider=options.get("provider") or "",
            remaining=repeat if isinstance(repeat, int) and repeat > 0 else None,
        )
        return self.job(self._schedules.add(made))

    def parse(self, schedule: str) -> dict[str, Any]:
        """When a schedule written so would fire; a ``ValueError`` when it cannot be read."""
        zone = self._config.cron.timezone or local_zone()
        try:
            timing = parse_timing(schedule, zone, time.time())
        except TimingError as error:
            raise ValueError(str(error)) from None
        if timing.kind == "every":
            return {"kind": "interval", "minutes": timing.seconds // 60, "display": timing.text}
        if timing.kind == "once":
            at = datetime.fromtimestamp(timing.at, zone_of(zone)).isoformat()
            return {"kind": "once", "run_at": at, "display": timing.text}
        return {"kind": "cron", "expr": timing.text, "display": timing.text}

    def list(self, *, include_disabled: bool = False) -> list[dict[str, Any]]:
        """The schedules; those that do not fire only when they are asked for."""
        found = self._schedules.list(current_principal())
        return [self.job(one) for one in found if include_disabled or one.state == "active"]

    def get(self, job_id: str) -> dict[str, Any] | None:
        """The schedule with that id or name."""
        return self._changed(job_id, lambda found: found)

    def update(self, job_id: str, updates: dict[str, Any]) -> dict[str, Any] | None:
        """Change a schedule; None when there is none."""
        return self._changed(job_id, lambda found: self._updated(found, updates))

    def _updated(self, found: Schedule, updates: dict[str, Any]) -> Schedule:
        self._check(updates)
        mask = home_redactor(self._home).mask_known
        changes: dict[str, Any] = {
            name: mask(updates[name]) for name in ("name", "prompt", "model", "provider") if updates.get(name)
        }
        if updates.get("schedule"):
            now = time.time()
            changes |= {"timing": parse_timing(str(updates["schedule"]), found.zone, now).text, "anchor": now // 1}
        if "deliver" in updates:
            changes["deliver"] = self._deliver(updates["deliver"])
        if changes:
            found = self._schedules.edit(found, **changes)
        if "enabled" in updates and bool(updates["enabled"]) != (found.state == "active"):
            found = self._schedules.resume(found) if updates["enabled"] else self._schedules.pause(found)
        return found

    def pause(self, job_id: str, reason: str | None = None) -> dict[str, Any] | None:
        """Fire a schedule no more."""
        return self._changed(job_id, lambda found: self._schedules.pause(found, reason or "paused by a plugin"))

    def resume(self, job_id: str) -> dict[str, Any] | None:
        """Fire a schedule again."""
        return self._changed(job_id, self._schedules.resume)

    def trigger(self, job_id: str) -> dict[str, Any] | None:
        """Let the scheduler run it at its next look."""
        return self._changed(job_id, self._schedules.fire_soon)

    def remove(self, job_id: str) -> bool:
        """Delete a schedule; False when there is none."""
        found = self._find(job_id)
        if found is not None:
            self._schedules.remove(found)
        return found is not None

    # -- inside -------------------------------------------------------------------------------------------------

    def job(self, schedule: Schedule) -> dict[str, Any]:
        """A schedule as a job."""
        runs = self._schedules.runs(schedule.id, limit=1)
        last = runs[0] if runs else None
        kinds = {"every": "interval"}
        return {
            "id": schedule.id,
            "name": schedule.name,
            "prompt": schedule.prompt,
            "schedule": {"kind": kinds.get(schedule.times.kind, schedule.times.kind), "display": schedule.timing},
            "schedule_display": schedule.timing,
            "repeat": {"times": schedule.remaining, "completed": 0},
            "enabled": schedule.state == "active",
            "state": {"active": "scheduled", "done": "completed"}.get(schedule.state, schedule.state),
            "paused_reason": schedule.reason or None,
            "created_at": _moment(schedule, schedule.created_at),
            "next_run_at": _moment(schedule, schedule.next_fire),
            "last_run_at": _moment(schedule, last.started_at if last else None),
            "last_status": None if last is None else {"completed": "ok", "failed": "error"}.get(last.state, last.state),
            "last_error": last.detail if last and last.state == "failed" else None,
            "deliver": schedule.deliver or "local",
            "model": schedule.model or None,
            "provider": schedule.provider or None,
        }

    def _changed(self, job_id: str, change: Callable[[Schedule], Schedule]) -> dict[str, Any] | None:
        """The job of that id or name after a change; None when there is none."""
        found = self._find(job_id)
        return None if found is None else self.job(change(found))

    def _find(self, job_id: str) -> Schedule | None:
        try:
            return self._schedules.get(job_id, current_principal())
        except ScheduleError:
            return None

    def _deliver(self, wanted: Any) -> str:
        scope = current_scope.get()
        here = "" if scope is None else chat_of_session(self._schedules.store, scope.session_id)
        return destination(str(wanted or ""), here, self._config, current_principal())

    def _folder(self, named: Any) -> str:
        """Where a run works: a principal's in its own folder."""
        principal = current_principal()
        return str(make_private(default_workspace(self._home, principal)) if principal else named or self._cwd)

    @staticmethod
    def _check(options: dict[str, Any]) -> None:
        for name in _NOT_OFFERED:
            if options.get(name):
                raise PluginError(f"{name} is not offered for schedules: every run is a turn of the agent")


def _moment(schedule: Schedule, at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, zone_of(schedule.zone)).isoformat()
