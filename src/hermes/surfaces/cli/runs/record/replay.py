"""``hermes replay``: a recorded run once more, without network and key, and the first thing that is different."""

from __future__ import annotations

import argparse

from hermes.base.config import hermes_home
from hermes.base.errors import HermesError
from hermes.base.log import discard_log
from hermes.base.scope import Interrupt
from hermes.surfaces.cli.arguments import JSON, Argument, CommandSpec, flag, positive_number
from hermes.surfaces.cli.failures import cancelled_by_signals
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.runs.record.source import config_for, open_run
from hermes.surfaces.commands.text import plural

_EXAMPLES = """
The run goes through the same code as a live one, with today's settings, plugins and prompt. Models and tools answer
from the record; the date, the folder and the files of the prompt are those of the record. Nothing is written.

exit codes: 0 identical, 1 different

examples:
  hermes replay 20250301_1412                   a session of this home
  hermes replay 20250301_1412 --turn 2          only its second turn
  hermes replay run.bundle                      a file of 'hermes sessions export ID --bundle run.bundle'
  hermes replay 20250301_1412 --tools live      run the tools again, with the recorded model
"""


def _replay(args: argparse.Namespace) -> Report:
    """Replay and report."""
    from hermes.record.compare import difference_lines
    from hermes.record.replay.replay import ReplaySettings, replay

    discard_log()
    settings = ReplaySettings(tools=args.tools, strict=args.strict, turn=args.turn, stop_early=not args.all)
    with open_run(args.run) as source:
        if source.is_bundle and args.tools == "live":
            raise HermesError(
                f"--tools live: {args.run} is a bundle, whose calls, approvals and settings may be those of anyone; "
                "live tools run a session of this home only. Leave the option out to replay it with recorded tools"
            )
        config, interrupt = config_for(source), Interrupt()
        with cancelled_by_signals(interrupt):
            result = replay(source.store, source.session_id, hermes_home(), config, settings, interrupt=interrupt)
    lines = [f"note: {note}" for note in result.notes]
    if result.identical:
        lines.append(f"identical ({plural(result.turns, 'turn')}, {plural(result.steps, 'model step')})")
    for difference in result.differences if args.all else result.differences[:1]:
        lines += difference_lines(difference)
    return Report(result, lines, code=0 if result.identical else 1)


_RUN = "a session's id, its beginning, or a bundle (default: the last one)"
_TOOLS = "recorded: no tool runs (the default); live: tools run again, in the session's folder"

COMMAND = CommandSpec(
    run=_replay,
    arguments=(
        Argument("run SESSION", _RUN, nargs="?"),
        Argument("--turn N", "only turn N, counted from 1", type=positive_number),
        Argument("--tools", _TOOLS, choices=("recorded", "live"), default="recorded"),
        flag("--strict", "compare versions, plugins, settings and decisions of plugins too"),
        flag("--all", "show every difference, not only the first"),
        JSON,
    ),
    epilog=_EXAMPLES,
)
