"""``hermes replay``: a recorded run once more, without network and key, and the first thing that is different."""

from __future__ import annotations

import argparse

from hermes.cli.arguments import positive_number
from hermes.cli.chat.signals import cancelled_by_signals
from hermes.cli.runs.record.source import config_for, open_run
from hermes.cli.terminal import plain, print_json
from hermes.config import hermes_home
from hermes.errors import HermesError
from hermes.log import discard_log
from hermes.scope import Interrupt

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


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "run", nargs="?", metavar="SESSION", help="a session's id, its beginning, or a bundle (default: the last one)"
    )
    parser.add_argument("--turn", metavar="N", type=positive_number, help="only turn N, counted from 1")
    parser.add_argument(
        "--tools",
        choices=("recorded", "live"),
        default="recorded",
        help="recorded: no tool runs (the default); live: tools run again, in the session's folder",
    )
    parser.add_argument(
        "--strict", action="store_true", help="compare versions, plugins, settings and decisions of plugins too"
    )
    parser.add_argument("--all", action="store_true", help="show every difference, not only the first")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Replay and report."""
    from hermes.record.replay.replay import ReplaySettings, replay
    from hermes.record.show import difference_lines

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
    if args.json:
        print_json(result)
        return 0 if result.identical else 1
    for note in result.notes:
        print(f"note: {plain(note)}")
    if result.identical:
        turns = f"{result.turns} turn{'' if result.turns == 1 else 's'}"
        print(f"identical ({turns}, {result.steps} model step{'' if result.steps == 1 else 's'})")
        return 0
    for difference in result.differences if args.all else result.differences[:1]:
        for line in difference_lines(difference):
            print(plain(line))
    return 1
