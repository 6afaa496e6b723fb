"""``hermes fork``: a new session with the recorded beginning of another one, live from a turn or a step on."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt, new_session_id
from hermes.host import Host, HostOptions
from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.arguments import Argument, CommandSpec, flag, positive_number, repeatable
from hermes.surfaces.cli.failures import cancelled_by_signals
from hermes.surfaces.cli.terminal import plain, print_data

_EXAMPLES = """
Turns and model steps are counted from 1. --at 2 runs turn 2 again from its message on; --at 2.3 takes over the first
two model steps of turn 2 with their tool calls, and asks the model from the third on. What is taken over is not run
and not paid for again. Files are as they are now.

examples:
  hermes fork 20250301_1412 --at 2 --model another-model
  hermes fork 20250301_1412 --at 2.3 --message 'Use the second file.'
  hermes fork 20250301_1412 --at 1 --system prompt.md -n 5
"""
_AT_ONCE = 4


def _fork(args: argparse.Namespace) -> int:
    """Make the forks and run them."""
    from hermes.record.fork import ForkChanges, ForkPlace, fork_session

    home, redactor, loaded = open_home()
    place = ForkPlace.parse(args.at)
    system = _text_of(args.system) if args.system else None
    plugins = loaded.config.plugins
    without = msgspec.structs.replace(plugins, disabled=[*plugins.disabled, *args.disable])
    config = msgspec.structs.replace(loaded.config, plugins=without)
    if place.step is None and system is None and args.no_run:
        raise HermesError("--no-run: a fork at a turn begins with a message; give a step, such as --at 2.1")
    with Host(home, config, HostOptions(provider=args.provider, model=args.model), redactor=redactor) as host:
        tools = frozenset(host.tools.all()) if args.disable else None
        changes = ForkChanges(system, args.message, tools)
        print(plain(_about_files(host, args.session, place.turn)), file=sys.stderr)
        forks: list[tuple[str, str | None]] = []
        for _ in range(args.count):
            new_id = new_session_id()
            forks.append((new_id, fork_session(host.store, host.runner, args.session, new_id, place, changes)))
        if args.no_run:
            for new_id, _ in forks:
                print(f"session_id: {new_id}")
            return 0
        interrupt = Interrupt()
        with cancelled_by_signals(interrupt), ThreadPoolExecutor(min(args.count, _AT_ONCE)) as pool:
            tasks = [pool.submit(_continue, host, new_id, message, interrupt) for new_id, message in forks]
            failed = sum(task.result() for task in tasks)
        interrupt.check()
    return 1 if failed else 0


def _continue(host: Host, session_id: str, message: str | None, interrupt: Interrupt) -> bool:
    session = host.resume_session(session_id)
    if host.options.model or host.options.provider:
        endpoint = session.models.endpoints[0]
        host.sessions.set_model(session_id, endpoint.provider, endpoint.model)
    if message is None:
        result = session.finish_open_turn(interrupt=interrupt)
    else:
        result = session.run(message, interrupt=interrupt)
    if result is None:
        raise HermesError(f"session {session_id} has nothing to continue")
    answer = result.answer or f"[{result.status}: {result.error}]"
    print_data(f"session_id: {session_id}\n{plain(answer)}")
    return result.status not in ("completed", "incomplete")


def _about_files(host: Host, session: str, turn: int) -> str:
    """Files stay as they are; the checkpoint that restores them is named where there is one."""
    line = "Files are not rewound: they are as they are now."
    row, checkpoints = host.sessions.get(session), host.runtime.checkpoints
    found = None if checkpoints is None else checkpoints.before_turn(row.id, turn - 1, row.principal)
    if found is None:
        return f"{line} There is no checkpoint from turn {turn} on."
    whose = f" --principal {row.principal}" if row.principal else ""
    return f"{line} 'hermes checkpoints restore{whose} {found.id}' restores them as they were before turn {turn}."


def _text_of(path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HermesError(f"--system {path}: {getattr(error, 'strerror', None) or 'not a text file'}") from None


_AT = "the turn, or the step of a turn, from which the model is asked again"
_MESSAGE = "replace the message of that turn; with a step above 1, add a message"

COMMAND = CommandSpec(
    run=_fork,
    arguments=(
        Argument("session SESSION", "a session's id, or its beginning"),
        Argument("--at TURN[.STEP]", _AT, required=True),
        Argument("--provider NAME", "ask this provider from there on", default=""),
        Argument("--model MODEL", "ask this model from there on", default=""),
        Argument("--system FILE", "replace the system prompt of that turn"),
        Argument("--message TEXT", _MESSAGE),
        repeatable("--disable PLUGIN", "leave this plugin out (may be repeated)"),
        Argument("-n N", "make N forks (default: 1)", dest="count", type=positive_number, default=1),
        flag("--no-run", "only make the session; 'hermes chat --resume' runs it"),
    ),
    epilog=_EXAMPLES,
)
