"""The ``cronjob`` tool: the model makes, lists and changes schedules for the user it works for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hermes.agent.memory.injection import injection_in
from hermes.base.config.schema.sections import CronConfig
from hermes.base.errors import HermesError
from hermes.base.scope import SCHEDULED
from hermes.service.schedules.delivery import chat_of_session, destination
from hermes.service.schedules.schedule import Schedule, ScheduleError, check_interval
from hermes.service.schedules.scheduler import is_running
from hermes.service.schedules.store import Schedules, new_schedule
from hermes.service.schedules.timing import local_zone, parse_timing
from hermes.tools.arguments import fields, text
from hermes.tools.declarations.builtin import DECLARED
from hermes.tools.registry import Args, Tool, ToolContext
from hermes.tools.results import tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

TOOL = "cronjob"
#: The source of schedules that were made with the tool.
SOURCE = "tool"

# Every request carries these texts, so they are kept short.
_ABOUT = "Scheduled prompts; each run is a new session"
_ACTIONS = ("create", "list", "update", "pause", "resume", "run", "remove")
#: ``name`` and ``deliver`` are taken too. Rarely needed, they are not worth their bytes in every request.
_ARGUMENTS = fields(
    ["action"],
    action=text(enum=list(_ACTIONS)),
    job_id=text(),
    prompt=text(),
    schedule=text("cron, every 2h, in 30m, time"),
)


def is_open_to(settings: CronConfig, platform: str, principal: str) -> bool:
    """Whether a conversation may use the tool. A scheduled run may not: schedules must not multiply by themselves."""
    return settings.tool and platform != SCHEDULED and (not principal or settings.for_principals)


def cronjob_tool(runtime: Runtime) -> Tool:
    """The tool of a host."""

    def run(args: Args, context: ToolContext) -> str:
        try:
            return tool_result(success=True, **_ToolCall(runtime, context).run(args))
        except HermesError as error:
            return tool_result(success=False, error=str(error))

    return Tool(TOOL, TOOL, _ABOUT, _ARGUMENTS, run, declares=DECLARED[TOOL], quick=True, emoji="⏰")


class _ToolCall:
    """One call of the tool, limited to the schedules of its principal."""

    def __init__(self, runtime: Runtime, context: ToolContext) -> None:
        self._runtime = runtime
        self._settings = runtime.config.cron
        self._context = context
        self._principal = context.scope.principal
        self._schedules = Schedules(runtime.store)

    def run(self, args: Args) -> dict[str, Any]:
        scope = self._context.scope
        if not is_open_to(self._settings, scope.platform, scope.principal):
            raise ScheduleError("schedules cannot be used in this conversation; tell the user")
        action = str(args.get("action") or "")
        if action == "create":
            return self._create(args)
        if action == "list":
            found = self._schedules.list(self._principal)
            return {"jobs": [_schedule_fields(one) for one in found], **self._notice(found)}
        if action not in _ACTIONS:
            raise ScheduleError(f"action is {action!r}; allowed: {', '.join(_ACTIONS)}")
        schedule = self._schedules.get(str(args.get("job_id") or ""), self._principal)
        return self._change(action, schedule, args)

    def _change(self, action: str, schedule: Schedule, args: Args) -> dict[str, Any]:
        if action in ("update", "remove") and schedule.source != SOURCE:
            raise ScheduleError(
                f"the user made {schedule.name!r}, so only the user can {action} it: 'hermes cron' does. "
                f"You may pause, resume and run it"
            )
        match action:
            case "update":
                changed = self._update(schedule, args)
            case "pause":
                changed = self._schedules.pause(schedule, "paused by the agent")
            case "resume":
                changed = self._schedules.resume(schedule)
            case "run":
                changed = self._schedules.fire_soon(schedule)
            case _:
                self._schedules.remove(schedule)
                return {"removed": schedule.id}
        return {"job": _schedule_fields(changed), **self._notice([changed])}

    def _create(self, args: Args) -> dict[str, Any]:
        now = time.time()
        prompt = self._checked(str(args.get("prompt") or ""))
        schedule = new_schedule(
            name=str(args.get("name") or ""),
            prompt=prompt,
            timing=str(args.get("schedule") or ""),
            zone=self._settings.timezone or local_zone(),
            cwd=str(self._context.cwd),
            now=now,
            principal=self._principal,
            source=SOURCE,
            deliver=self._deliver(str(args.get("deliver") or "")),
        )
        check_interval(schedule, self._settings.min_interval, now)
        added = self._schedules.add(schedule, most=self._settings.max_schedules)
        return {"job": _schedule_fields(added), **self._notice([added])}

    def _update(self, schedule: Schedule, args: Args) -> Schedule:
        now = time.time()
        changes: dict[str, Any] = {}
        if args.get("prompt"):
            changes["prompt"] = self._checked(str(args["prompt"]))
        if args.get("name"):
            changes["name"] = str(args["name"])
        if args.get("schedule"):
            timing = parse_timing(str(args["schedule"]), schedule.zone, now)
            changes |= {"timing": timing.text, "anchor": float(int(now))}
        if args.get("deliver"):
            changes["deliver"] = self._deliver(str(args["deliver"]))
        if not changes:
            raise ScheduleError("nothing to update; give prompt, schedule or name")
        return self._schedules.edit(
            schedule, check=lambda changed: check_interval(changed, self._settings.min_interval, now), **changes
        )

    def _checked(self, prompt: str) -> str:
        """The prompt, which may come from a page or a message that the model has read."""
        found = injection_in(prompt)
        if found is not None:
            raise ScheduleError(
                f"the prompt looks like an instruction planted by someone else: {found}. Say it plainly"
            )
        if self._runtime.redactor.suspects(prompt):
            raise ScheduleError("the prompt seems to hold a key or a password; say where the secret is kept instead")
        return prompt

    def _deliver(self, wanted: str) -> str:
        here = chat_of_session(self._runtime.store, self._context.scope.session_id)
        return destination(wanted, here, self._runtime.config, self._principal)

    def _notice(self, schedules: list[Schedule]) -> dict[str, str]:
        """A word about schedules that no process would run."""
        if not any(one.state == "active" for one in schedules) or is_running(self._runtime.home):
            return {}
        return {"notice": "no scheduler is running: the user must start 'hermes gateway run' or 'hermes cron daemon'"}


def _schedule_fields(schedule: Schedule) -> dict[str, Any]:
    """A schedule for the model."""
    shown = {
        "job_id": schedule.id,
        "name": schedule.name,
        "schedule": schedule.timing,
        "prompt": schedule.prompt,
        "state": schedule.state,
        "reason": schedule.reason,
        "next_run": schedule.clock(schedule.next_fire) if schedule.next_fire else "",
        "deliver": schedule.deliver,
        "failures": schedule.failures or "",
    }
    return {name: value for name, value in shown.items() if value}
