"""``hermes cron``: adds, lists, shows, changes and runs schedules, and runs the scheduler."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from hermes.cli.arguments import positive_number
from hermes.cli.terminal import (
    one_line,
    plain,
    print_data,
    print_error,
    print_json,
    print_note,
    print_warnings,
    terminal_width,
)
from hermes.commands.text import columns, duration, plural
from hermes.config import Config, apply_env, hermes_home, load_config, load_env_file
from hermes.config.secrets import home_redactor
from hermes.errors import HermesError
from hermes.journal.store.port import home_store
from hermes.schedules.schedule import Schedule, ScheduleRun
from hermes.schedules.store import Schedules, new_schedule

if TYPE_CHECKING:
    from hermes.host import Host
    from hermes.schedules.run import RunReport, RunTurns
    from hermes.schedules.scheduler import Scheduler

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-commands."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.set_defaults(action=_list, json=False, all=False)
    actions = parser.add_subparsers(metavar="ACTION")
    add = _sub(actions, "add", _add, "make a schedule", aliases=["create"])
    add.add_argument("when", metavar="WHEN", help="when it fires")
    add.add_argument(
        "prompt", metavar="PROMPT", help="the message that the agent gets each time; - reads it from the input"
    )
    _fields(add)
    listed = _sub(actions, "list", _list, "list the schedules (the default)", aliases=["ls"])
    listed.add_argument("--all", action="store_true", help="show those that are over, too")
    show = _sub(actions, "show", _show, "show a schedule and its last runs")
    edit = _sub(actions, "edit", _edit, "change a schedule")
    run = _sub(actions, "run", _run_now, "run a schedule now and print the answer")
    pause = _sub(actions, "pause", _pause, "stop a schedule until it is resumed")
    pause.add_argument("--reason", default="", metavar="TEXT", help="why")
    resume = _sub(actions, "resume", _resume, "start a paused schedule again")
    remove = _sub(actions, "remove", _remove, "delete a schedule; its sessions stay", aliases=["rm"])
    for action in (show, edit, run, pause, resume, remove):
        action.add_argument("id", metavar="ID", help="the schedule")
    edit.add_argument("--when", metavar="WHEN", help="when it fires")
    edit.add_argument("--prompt", metavar="TEXT", help="the message that the agent gets each time")
    _fields(edit)
    history = _sub(actions, "history", _history, "list past runs")
    history.add_argument("id", nargs="?", metavar="ID", help="only those of this schedule")
    history.add_argument("--limit", type=positive_number, default=20, metavar="N", help="show at most N (default: 20)")
    preview = _sub(actions, "next", _next, "print the next times of a schedule or of WHEN")
    preview.add_argument("when", metavar="WHEN", help="as in 'add', or the id of a schedule")
    preview.add_argument("--tz", metavar="ZONE", help="time zone (cron.timezone, or that of the machine)")
    preview.add_argument("--count", type=positive_number, default=5, metavar="N", help="how many (default: 5)")
    _sub(actions, "tick", _tick, "run what is due now and end: for system cron and systemd timers")
    _sub(actions, "daemon", _daemon, "run what is due until it is stopped; 'hermes gateway run' does so too")


def _sub(
    actions: Any, name: str, action: Any, summary: str, aliases: list[str] | None = None
) -> argparse.ArgumentParser:
    made = actions.add_parser(name, help=summary, description=summary, aliases=aliases or [])
    made.set_defaults(action=action)
    if name not in ("daemon",):
        made.add_argument("--json", action="store_true", help="print JSON")
    return made


def _fields(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="NAME", help="a short name; default: the beginning of the prompt")
    parser.add_argument("--tz", metavar="ZONE", help="time zone, such as Europe/Berlin (cron.timezone)")
    parser.add_argument(
        "--deliver", metavar="WHERE", help="none, file:PATH (with %%Y-%%m-%%d), PLATFORM or PLATFORM:CHAT"
    )
    parser.add_argument("--cwd", metavar="FOLDER", help="where it works; default: here")
    parser.add_argument("--provider", metavar="NAME", help="provider of the model")
    parser.add_argument("--model", metavar="NAME", help="model")
    parser.add_argument("--missed", choices=("once", "skip"), help="what to do about missed runs (cron.missed)")
    parser.add_argument(
        "--overlap", choices=("skip", "queue"), help="what to do while the previous run still works (cron.overlap)"
    )
    parser.add_argument("--times", type=positive_number, metavar="N", help="end after this many runs")


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    home = hermes_home()
    apply_env(load_env_file(home))
    return args.action(args, home)


@contextlib.contextmanager
def _opened(home: Path) -> Generator[Schedules]:
    with contextlib.closing(home_store(home)) as store:
        yield Schedules(store)


# -- making and changing --------------------------------------------------------------------------------------------


def _add(args: argparse.Namespace, home: Path) -> int:
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
    return _changed(args, schedule, "added", home)


def _given(args: argparse.Namespace, config: Config) -> dict[str, Any]:
    """The optional fields that were given."""
    from hermes.schedules.delivery import home_channels, parse_delivery

    fields = {name: getattr(args, name) for name in ("provider", "model", "missed", "overlap")}
    fields["remaining"] = args.times
    fields["deliver"] = None if args.deliver is None else parse_delivery(args.deliver, home_channels(config))
    return {name: value for name, value in fields.items() if value is not None}


def _check_file(schedule: Schedule, home: Path) -> None:
    if schedule.deliver:
        from hermes.schedules.delivery import check_file
        from hermes.tools.files.guard import FileGuard

        check_file(schedule, time.time(), FileGuard(home).refusal_to_write)


def _edit(args: argparse.Namespace, home: Path) -> int:
    from hermes.schedules.timing import parse_timing, zone_of

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
    return _changed(args, schedule, "changed", home)


def _pause(args: argparse.Namespace, home: Path) -> int:
    with _opened(home) as schedules:
        schedule = schedules.pause(schedules.get(args.id), args.reason)
    return _changed(args, schedule, "paused", home)


def _resume(args: argparse.Namespace, home: Path) -> int:
    with _opened(home) as schedules:
        schedule = schedules.resume(schedules.get(args.id))
    return _changed(args, schedule, "resumed", home)


def _remove(args: argparse.Namespace, home: Path) -> int:
    with _opened(home) as schedules:
        schedule = schedules.get(args.id)
        schedules.remove(schedule)
    if args.json:
        print_json({"removed": schedule.id})
    else:
        print(plain(f"removed {schedule.id}  {schedule.name}"))
    return 0


def _changed(args: argparse.Namespace, schedule: Schedule, done: str, home: Path) -> int:
    if args.json:
        print_json(asdict(schedule))
    else:
        following = f", next: {schedule.clock(schedule.next_fire)}" if schedule.next_fire else ""
        print(plain(f"{done} {schedule.id}  {schedule.name}  ({schedule.timing}, {schedule.zone}{following})"))
        if schedule.state == "active":
            _note_without_scheduler(home)
    return 0


def _note_without_scheduler(home: Path) -> None:
    from hermes.schedules.scheduler import is_running

    if not is_running(home):
        print_note(
            "No scheduler is running: start 'hermes gateway run' or 'hermes cron daemon', or let a timer run "
            "'hermes cron tick'."
        )


def _zone(named: str | None, config: Config) -> str:
    from hermes.schedules.timing import local_zone

    return named or config.cron.timezone or local_zone()


def _folder(named: str) -> str:
    folder = (Path.cwd() / Path(named).expanduser()).resolve()
    if not folder.is_dir():
        raise HermesError(f"{folder} is not a folder; name one that exists with --cwd")
    return str(folder)


# -- showing --------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace, home: Path) -> int:
    with _opened(home) as schedules:
        found = schedules.list(include_done=args.all)
    if args.json:
        print_json([asdict(one) for one in found])
        return 0
    if not found:
        print("No schedules. 'hermes cron add WHEN PROMPT' makes one; 'hermes cron --help' has examples.")
        return 0
    rows = [("ID", "STATE", "NEXT", "WHEN", "NAME")]
    rows += [(one.id, one.state, _next_text(one), one.timing, one_line(_name(one), 80)) for one in found]
    for line in columns(rows, "", width=terminal_width(100)):
        print(plain(line))
    if any(one.state == "active" for one in found):
        _note_without_scheduler(home)
    return 0


def _name(schedule: Schedule) -> str:
    notes = [f"of {schedule.principal}"] if schedule.principal else []
    notes += [schedule.reason] if schedule.state == "paused" else []
    notes += [plural(schedule.failures, "failure")] if schedule.failures and schedule.state != "paused" else []
    return schedule.name + (f" ({'; '.join(notes)})" if notes else "")


def _next_text(schedule: Schedule) -> str:
    return schedule.clock(schedule.next_fire)[:16] if schedule.next_fire else "-"


def _show(args: argparse.Namespace, home: Path) -> int:
    from hermes.schedules.delivery import describe

    config = load_config(home).config.cron
    with _opened(home) as schedules:
        one = schedules.get(args.id)
        runs = schedules.runs(one.id, limit=5)
    if args.json:
        print_json({**asdict(one), "runs": [asdict(past) for past in runs]})
        return 0
    facts = [
        ("id", one.id),
        ("name", one.name),
        ("state", f"{one.state}: {one.reason}" if one.reason else one.state),
        ("when", f"{one.timing} ({one.zone})"),
        ("next", one.clock(one.next_fire) if one.next_fire else "-"),
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
    for line in columns(facts, "", width=terminal_width(100)):
        print(plain(line))
    if runs:
        print()
        _print_runs(runs, {one.id: one})
    return 0


def _history(args: argparse.Namespace, home: Path) -> int:
    with _opened(home) as schedules:
        wanted = schedules.get(args.id).id if args.id else None
        runs = schedules.runs(wanted, limit=args.limit)
        known = {one.id: one for one in schedules.list()}
    if args.json:
        print_json([asdict(past) for past in runs])
    elif not runs:
        print("No runs yet.")
    else:
        _print_runs(runs, known)
    return 0


def _print_runs(runs: list[ScheduleRun], known: dict[str, Schedule]) -> None:
    rows = [("PLANNED", "SCHEDULE", "STATE", "TOOK", "SESSION", "DETAIL")]
    for past in runs:
        took = past.ended_at - past.started_at if past.ended_at and past.started_at else None
        rows.append(
            (
                known[past.schedule_id].clock(past.planned)[:16],
                past.schedule_id,
                past.state,
                "-" if took is None else duration(took),
                "-" if past.state in ("queued", "skipped") else past.session_id,
                one_line("; ".join(filter(None, (past.detail, past.delivery))), 200),
            )
        )
    for line in columns(rows, "", width=terminal_width(160)):
        print(plain(line))


def _next(args: argparse.Namespace, home: Path) -> int:
    from hermes.schedules.timing import TimingError, parse_timing

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
    if args.json:
        print_json({"timing": schedule.timing, "zone": schedule.zone, "times": times})
        return 0
    for moment in times:
        print(schedule.clock(moment))
    if not times:
        print("it fires no more")
    return 0


# -- running --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _scheduler(home: Path, on_report: Callable[[RunReport], None]) -> Generator[tuple[Host, Scheduler]]:
    from hermes.dispatch.choose import missing_workers
    from hermes.gateway.schedules import ScheduleOutbox
    from hermes.gateway.status import read_status
    from hermes.host import Host, HostOptions
    from hermes.log import setup_logging
    from hermes.sanitize import Redactor
    from hermes.schedules.scheduler import Scheduler
    from hermes.scope import SCHEDULED

    redactor = Redactor()  # the host adds the secrets of the home to it
    setup_logging(home, redactor=redactor)
    loaded = load_config(home)
    options = HostOptions(platform=SCHEDULED, unattended=True)
    with (
        Host(home, loaded.config, options, redactor=redactor) as host,
        _run_turns(host) as turns,
    ):
        print_warnings((*loaded.warnings, *host.notices, *missing_workers(host)), redactor.redact)
        outbox = ScheduleOutbox(host.store, lambda: (status := read_status(home)) is not None and status.is_running)
        yield host, Scheduler(host, turns=turns, outbox=outbox, on_report=on_report)


@contextlib.contextmanager
def _run_turns(host: Host) -> Generator[RunTurns | None]:
    """What runs the turns of scheduled runs: workers, or None for this process."""
    from hermes.dispatch.choose import make_dispatcher, runs_on_workers

    if not runs_on_workers(host.config):
        yield None
        return
    from hermes.dispatch.scheduled import DispatchedRuns

    dispatcher = make_dispatcher(host)
    dispatcher.start()
    try:
        yield DispatchedRuns(host, dispatcher)
    finally:
        dispatcher.release()


def _run_now(args: argparse.Namespace, home: Path) -> int:
    with _opened(home) as schedules:
        schedule = schedules.get(args.id)
    with _scheduler(home, _ignore) as (_host, scheduler):
        report = _interruptible(scheduler, schedule)
    if args.json:
        from hermes.schedules.run import run_data

        print_json(run_data(report))
    else:
        if report.answer:
            print_data(report.answer)
        if report.delivery:
            print_note(report.delivery)
        if report.error:
            print_error(report.error)
        print(f"session_id: {report.run.session_id}", file=sys.stderr)
    return 1 if report.error else 0


def _interruptible(scheduler: Scheduler, schedule: Schedule) -> RunReport:
    """Run a schedule; a signal interrupts it."""
    import signal

    from hermes.schedules.run import BY_HAND

    run = scheduler.begin(schedule)

    def interrupt(_number: int, _frame: object) -> None:
        run.interrupt.cancel(BY_HAND)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return run.execute()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tick(args: argparse.Namespace, home: Path) -> int:
    reports: list[RunReport] = []
    # Most ticks find nothing: those build no host.
    if _has_work(home):
        with _scheduler(home, reports.append) as (_host, scheduler), _stopping(scheduler):
            while scheduler.tick():
                scheduler.join()
    if args.json:
        from hermes.schedules.run import run_data

        print_json([run_data(report) for report in reports])
    else:
        for report in reports:
            _print_report(report)
    return 1 if any(report.error for report in reports) else 0


def _has_work(home: Path) -> bool:
    from hermes.schedules.fires import FireLedger

    with contextlib.closing(home_store(home)) as store:
        ledger = FireLedger(store, store.new_runner(), load_config(home).config.cron, time.time)
        return ledger.has_work()


def _daemon(_args: argparse.Namespace, home: Path) -> int:
    import threading

    stop = threading.Event()
    with _scheduler(home, _print_report) as (host, scheduler), _stopping(scheduler, stop):
        from hermes.schedules.provider import serve

        active = [one for one in Schedules(host.store).list() if one.state == "active"]
        print(f"scheduler {os.getpid()} runs with {plural(len(active), 'active schedule')}", flush=True)
        serve(host, scheduler, stop)
        scheduler.close()
    return 0


@contextlib.contextmanager
def _stopping(scheduler: Scheduler, stop: Any = None) -> Generator[None]:
    """While the block runs, SIGINT and SIGTERM stop the scheduler: its runs are left to the next one."""
    import signal
    import threading

    def handle(_number: int, _frame: object) -> None:
        if stop is not None:
            stop.set()
            scheduler.wake()
        else:
            # Waiting for threads is nothing for a signal handler.
            threading.Thread(target=scheduler.close, daemon=True).start()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(_report: RunReport) -> None:
    """For a run whose report is returned."""


def _print_report(report: RunReport) -> None:
    outcome = "left to the next scheduler" if report.is_left else f"failed: {report.error}" if report.error else "done"
    more = f" ({report.delivery})" if report.delivery else ""
    line = f"{report.schedule.clock(report.run.planned)[:16]} {report.schedule.name} {outcome}{more}"
    print(plain(one_line(line, 500)), flush=True)
