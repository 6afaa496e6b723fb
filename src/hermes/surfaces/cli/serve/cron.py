"""``hermes cron``: adds, lists, shows, changes and runs schedules, and runs the scheduler."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from hermes.base.config import Config, load_config
from hermes.base.config.secrets import home_redactor
from hermes.base.errors import HermesError
from hermes.journal.store.port import home_store
from hermes.service.schedules.schedule import Schedule, ScheduleRun
from hermes.service.schedules.store import Schedules, new_schedule
from hermes.surfaces.cli import opened_home
from hermes.surfaces.cli.arguments import JSON, Action, Argument, CommandSpec, flag, positive_number
from hermes.surfaces.cli.failures import handled_signals
from hermes.surfaces.cli.report import Report, table
from hermes.surfaces.cli.terminal import one_line, print_warnings
from hermes.surfaces.commands.text import duration, plural

if TYPE_CHECKING:
    from hermes.host import Host
    from hermes.service.schedules.run import RunReport, RunTurns
    from hermes.service.schedules.scheduler import Scheduler

_EXAMPLES = """
WHEN is a cron expression of five fields, an interval, a delay or a moment.
ID may be shortened to a unique beginning; the name of a schedule works too.

examples:
  hermes cron add '0 9 * * mon-fri' 'What is new in the issues of this repository?'
  hermes cron add 'every 2h' 'Check the disks' --name disks --deliver file:disks/%Y-%m-%d.md
  hermes cron add 'in 30m' 'Remind me of the oven' --deliver telegram
  hermes cron next '30 2 * * *' --tz Europe/Berlin      the next times, before you use them
  hermes cron list
  hermes cron history disks
  hermes cron daemon                                    run what is due, until it is stopped
"""


@contextlib.contextmanager
def _opened(home: Path) -> Generator[Schedules]:
    with contextlib.closing(home_store(home)) as store:
        yield Schedules(store)


def _add(args: argparse.Namespace, home: Path) -> Report:
    config = load_config(home).config
    prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
    mask = home_redactor(home).mask_known
    schedule = new_schedule(
        name=mask(args.name or ""),
        prompt=mask(prompt),
        timing=args.when,
        zone=_zone(args.tz, config),
        cwd=_folder(args.cwd or "."),
        now=time.time(),
        **_given(args, config),
    )
    _check_file(schedule, home)
    with _opened(home) as schedules:
        schedule = schedules.add(schedule)
    return _changed(schedule, "added", home)


def _given(args: argparse.Namespace, config: Config) -> dict[str, Any]:
    """The optional fields that were given."""
    from hermes.service.schedules.delivery import home_channels, parse_delivery

    fields = {name: getattr(args, name) for name in ("provider", "model", "missed", "overlap")}
    fields["remaining"] = args.times
    fields["deliver"] = None if args.deliver is None else parse_delivery(args.deliver, home_channels(config))
    return {name: value for name, value in fields.items() if value is not None}


def _check_file(schedule: Schedule, home: Path) -> None:
    if schedule.deliver:
        from hermes.service.schedules.delivery import check_file
        from hermes.tools.files.guard import FileGuard

        check_file(schedule, time.time(), FileGuard(home).refusal_to_write)


def _edit(args: argparse.Namespace, home: Path) -> Report:
    from hermes.service.schedules.timing import parse_timing, zone_of

    config = load_config(home).config
    with _opened(home) as schedules:
        schedule = schedules.get(args.id)
        changes = _given(args, config)
        mask = home_redactor(home).mask_known
        changes |= {name: mask(value) for name in ("name", "prompt") if (value := getattr(args, name)) is not None}
        if args.cwd is not None:
            changes["cwd"] = _folder(args.cwd)
        zone = args.tz or schedule.zone
        if args.tz is not None:
            zone_of(zone)
            changes["zone"] = zone
        if args.when is not None:
            now = time.time()
            changes |= {"timing": parse_timing(args.when, zone, now).text, "anchor": float(int(now))}
        if not changes:
            raise HermesError(
                "nothing to change; give --when, --prompt or another option, see 'hermes cron edit --help'"
            )
        _check_file(replace(schedule, **changes), home)
        schedule = schedules.edit(schedule, **changes)
    return _changed(schedule, "changed", home)


def _pause_or_resume(args: argparse.Namespace, home: Path) -> Report:
    with _opened(home) as schedules:
        found = schedules.get(args.id)
        schedule = schedules.resume(found) if args.reason is None else schedules.pause(found, args.reason)
    return _changed(schedule, "resumed" if args.reason is None else "paused", home)


def _remove(args: argparse.Namespace, home: Path) -> Report:
    with _opened(home) as schedules:
        schedule = schedules.get(args.id)
        schedules.remove(schedule)
    return Report({"removed": schedule.id}, [f"removed {schedule.id}  {schedule.name}"])


def _changed(schedule: Schedule, done: str, home: Path) -> Report:
    following = f", next: {schedule.clock(schedule.next_fire)}" if schedule.next_fire else ""
    line = f"{done} {schedule.id}  {schedule.name}  ({schedule.timing}, {schedule.zone}{following})"
    return Report(asdict(schedule), [line], notes=_notes_without_scheduler([schedule], home))


def _notes_without_scheduler(schedules: Iterable[Schedule], home: Path) -> list[str]:
    from hermes.service.schedules.scheduler import is_running

    if is_running(home) or not any(one.state == "active" for one in schedules):
        return []
    return [
        "No scheduler is running: start 'hermes gateway run' or 'hermes cron daemon', or let a timer run "
        "'hermes cron tick'."
    ]


def _zone(named: str | None, config: Config) -> str:
    from hermes.service.schedules.timing import local_zone

    return named or config.cron.timezone or local_zone()


def _folder(named: str) -> str:
    folder = (Path.cwd() / Path(named).expanduser()).resolve()
    if not folder.is_dir():
        raise HermesError(f"{folder} is not a folder; name one that exists with --cwd")
    return str(folder)


def _list(args: argparse.Namespace, home: Path) -> Report:
    with _opened(home) as schedules:
        found = schedules.list(include_done=args.all)
    return Report(
        [asdict(one) for one in found],
        heads=("ID", "STATE", "NEXT", "WHEN", "NAME"),
        rows=[(one.id, one.state, _next_time(one)[:16], one.timing, one_line(_name(one), 80)) for one in found],
        empty="No schedules. 'hermes cron add WHEN PROMPT' makes one; 'hermes cron --help' has examples.",
        notes=_notes_without_scheduler(found, home),
    )


def _name(schedule: Schedule) -> str:
    notes = [f"of {schedule.principal}"] if schedule.principal else []
    notes += [schedule.reason] if schedule.state == "paused" else []
    notes += [plural(schedule.failures, "failure")] if schedule.failures and schedule.state != "paused" else []
    return schedule.name + (f" ({'; '.join(notes)})" if notes else "")


def _next_time(schedule: Schedule) -> str:
    return schedule.clock(schedule.next_fire) if schedule.next_fire else "-"


def _show(args: argparse.Namespace, home: Path) -> Report:
    from hermes.service.schedules.delivery import describe

    config = load_config(home).config.cron
    with _opened(home) as schedules:
        one = schedules.get(args.id)
        runs = schedules.runs(one.id, limit=5)
    facts = [
        ("id", one.id),
        ("name", one.name),
        ("state", f"{one.state}: {one.reason}" if one.reason else one.state),
        ("when", f"{one.timing} ({one.zone})"),
        ("next", _next_time(one)),
        ("delivers", describe(one.deliver)),
        ("folder", one.cwd),
        ("model", " ".join(filter(None, (one.provider, one.model))) or "as configured"),
        ("missed runs", one.missed or config.missed),
        ("overlaps", one.overlap or config.overlap),
        ("runs left", "no limit" if one.remaining is None else str(one.remaining)),
        ("belongs to", f"{one.principal or 'the owner'}, made by {one.source}"),
        ("failures", f"{one.failures} in a row; paused at {config.max_failures}"),
        ("prompt", one_line(one.prompt, 2_000)),
    ]
    last_runs = ["", *table([_RUN_HEADS, *_run_rows(runs, {one.id: one})])] if runs else []
    document = {**asdict(one), "runs": [asdict(past) for past in runs]}
    return Report(document, [*table(facts), *last_runs])


def _history(args: argparse.Namespace, home: Path) -> Report:
    with _opened(home) as schedules:
        wanted = schedules.get(args.id).id if args.id else None
        runs = schedules.runs(wanted, limit=args.limit)
        known = {one.id: one for one in schedules.list()}
    return Report([asdict(past) for past in runs], heads=_RUN_HEADS, rows=_run_rows(runs, known), empty="No runs yet.")


_RUN_HEADS = ("PLANNED", "SCHEDULE", "STATE", "TOOK", "SESSION", "DETAIL")


def _run_rows(runs: Iterable[ScheduleRun], known: Mapping[str, Schedule]) -> Iterator[tuple[str, ...]]:
    for past in runs:
        took = past.ended_at - past.started_at if past.ended_at and past.started_at else None
        yield (
            known[past.schedule_id].clock(past.planned)[:16],
            past.schedule_id,
            past.state,
            "-" if took is None else duration(took),
            "-" if past.state in ("queued", "skipped") else past.session_id,
            one_line("; ".join(filter(None, (past.detail, past.delivery))), 200),
        )


def _next(args: argparse.Namespace, home: Path) -> Report:
    from hermes.service.schedules.timing import TimingError, parse_timing

    config, now = load_config(home).config, time.time()
    zone = _zone(args.tz, config)
    try:
        parse_timing(args.when, zone, now)
        schedule = new_schedule(name="-", prompt="-", timing=args.when, zone=zone, cwd="", now=now)
    except TimingError:
        with _opened(home) as schedules:
            matches = [one for one in schedules.list() if args.when in (one.id, one.name)]
        if not matches:
            raise
        schedule = matches[0]
    times: list[float] = []
    following = schedule.fire_after(now)
    while following is not None and len(times) < args.count:
        times.append(following)
        following = schedule.fire_after(following)
    document = {"timing": schedule.timing, "zone": schedule.zone, "times": times}
    return Report(document, map(schedule.clock, times) if times else ["it fires no more"])


@contextlib.contextmanager
def _scheduler(home: Path, on_report: Callable[[RunReport], None]) -> Generator[tuple[Host, Scheduler]]:
    from hermes.base.log import setup_logging
    from hermes.base.sanitize import Redactor
    from hermes.base.scope import SCHEDULED
    from hermes.host import Host, HostOptions
    from hermes.service.dispatch.choose import make_dispatcher, missing_workers, runs_on_workers
    from hermes.service.schedules.scheduler import Scheduler
    from hermes.surfaces.gateway.schedules import ScheduleOutbox
    from hermes.surfaces.gateway.status import read_status

    redactor = Redactor()  # the host adds the secrets of the home to it
    setup_logging(home, redactor=redactor)
    loaded = load_config(home)
    options = HostOptions(platform=SCHEDULED, unattended=True)
    with Host(home, loaded.config, options, redactor=redactor) as host, contextlib.ExitStack() as stack:
        turns: RunTurns | None = None
        if runs_on_workers(host.config):
            from hermes.service.dispatch.scheduled import DispatchedRuns

            dispatcher = make_dispatcher(host)
            dispatcher.start()
            stack.callback(dispatcher.release)
            turns = DispatchedRuns(host, dispatcher)
        print_warnings((*loaded.warnings, *host.notices, *missing_workers(host)), redactor.redact)
        outbox = ScheduleOutbox(host.store, lambda: (status := read_status(home)) is not None and status.is_running)
        yield host, Scheduler(host, turns=turns, outbox=outbox, on_report=on_report)


def _run_now(args: argparse.Namespace, home: Path) -> Report:
    from hermes.service.schedules.run import BY_HAND, run_data

    with _opened(home) as schedules:
        schedule = schedules.get(args.id)
    with _scheduler(home, lambda _report: None) as (_host, scheduler):
        run = scheduler.begin(schedule)
        with handled_signals(lambda _number, _frame: run.interrupt.cancel(BY_HAND)):
            report = run.execute()
    error = f"Error: {report.error}" if report.error else ""
    notes = filter(None, (report.delivery, error, f"session_id: {report.run.session_id}"))
    return Report(run_data(report), data=report.answer, notes=notes, code=1 if report.error else 0)


def _tick(_args: argparse.Namespace, home: Path) -> Report:
    import threading

    from hermes.service.schedules.fires import FireLedger
    from hermes.service.schedules.run import run_data

    reports: list[RunReport] = []
    # Most ticks find nothing: those build no host.
    with contextlib.closing(home_store(home)) as store:
        ledger = FireLedger(store, store.new_runner(), load_config(home).config.cron, time.time)
        has_work = ledger.has_work()
    if has_work:
        with _scheduler(home, reports.append) as (_host, scheduler):
            # A signal leaves the runs to the next tick; waiting for threads is nothing for a handler.
            closing = threading.Thread(target=scheduler.close, daemon=True)
            with handled_signals(lambda _number, _frame: None if closing.ident else closing.start()):
                while scheduler.tick():
                    scheduler.join()
    failed = any(report.error for report in reports)
    return Report([run_data(report) for report in reports], map(_report_line, reports), code=1 if failed else 0)


def _daemon(_args: argparse.Namespace, home: Path) -> None:
    import threading

    from hermes.service.schedules.provider import serve

    def show(report: RunReport) -> None:
        print(_report_line(report), flush=True)

    stop = threading.Event()
    with _scheduler(home, show) as (host, scheduler):

        def end(_number: int, _frame: object) -> None:
            stop.set()
            scheduler.wake()

        with handled_signals(end):
            active = [one for one in Schedules(host.store).list() if one.state == "active"]
            print(f"scheduler {os.getpid()} runs with {plural(len(active), 'active schedule')}", flush=True)
            serve(host, scheduler, stop)
            scheduler.close()


def _report_line(report: RunReport) -> str:
    outcome = "left to the next scheduler" if report.is_left else f"failed: {report.error}" if report.error else "done"
    more = f" ({report.delivery})" if report.delivery else ""
    return one_line(f"{report.schedule.clock(report.run.planned)[:16]} {report.schedule.name} {outcome}{more}", 500)


_ID = Argument("id ID", "the schedule")
_FIELDS = (
    Argument("--name NAME", "a short name; default: the beginning of the prompt"),
    Argument("--tz ZONE", "time zone, such as Europe/Berlin (cron.timezone)"),
    Argument("--deliver WHERE", "none, file:PATH (with %%Y-%%m-%%d), PLATFORM or PLATFORM:CHAT"),
    Argument("--cwd FOLDER", "where it works; default: here"),
    Argument("--provider NAME", "provider of the model"),
    Argument("--model NAME", "model"),
    Argument("--missed", "what to do about missed runs (cron.missed)", choices=("once", "skip")),
    Argument("--overlap", "what to do while the previous run still works (cron.overlap)", choices=("skip", "queue")),
    Argument("--times N", "end after this many runs", type=positive_number),
)
_PROMPT = "the message that the agent gets each time; - reads it from the input"

COMMAND = CommandSpec(
    default="list",
    opened=opened_home,
    epilog=_EXAMPLES,
    actions=(
        Action("add", _add, "make a schedule", aliases=("create",)).takes(
            JSON, Argument("when WHEN", "when it fires"), Argument("prompt PROMPT", _PROMPT), *_FIELDS
        ),
        Action("list", _list, "list the schedules (the default)", aliases=("ls",)).takes(
            JSON, flag("--all", "show those that are over, too")
        ),
        Action("show", _show, "show a schedule and its last runs").takes(JSON, _ID),
        Action("edit", _edit, "change a schedule").takes(
            JSON,
            _ID,
            Argument("--when WHEN", "when it fires"),
            Argument("--prompt TEXT", "the message that the agent gets each time"),
            *_FIELDS,
        ),
        Action("run", _run_now, "run a schedule now and print the answer").takes(JSON, _ID),
        Action("pause", _pause_or_resume, "stop a schedule until it is resumed").takes(
            JSON, Argument("--reason TEXT", "why", default=""), _ID
        ),
        Action("resume", _pause_or_resume, "start a paused schedule again", defaults={"reason": None}).takes(JSON, _ID),
        Action("remove", _remove, "delete a schedule; its sessions stay", aliases=("rm",)).takes(JSON, _ID),
        Action("history", _history, "list past runs").takes(
            JSON,
            Argument("id ID", "only those of this schedule", nargs="?"),
            Argument("--limit N", "show at most N (default: 20)", type=positive_number, default=20),
        ),
        Action("next", _next, "print the next times of a schedule or of WHEN").takes(
            JSON,
            Argument("when WHEN", "as in 'add', or the id of a schedule"),
            Argument("--tz ZONE", "time zone (cron.timezone, or that of the machine)"),
            Argument("--count N", "how many (default: 5)", type=positive_number, default=5),
        ),
        Action("tick", _tick, "run what is due now and end: for system cron and systemd timers").takes(JSON),
        Action("daemon", _daemon, "run what is due until it is stopped; 'hermes gateway run' does so too"),
    ),
)
