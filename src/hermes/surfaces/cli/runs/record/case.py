"""``hermes test``: tests made from recorded runs, run without network and key."""

from __future__ import annotations

import argparse
from pathlib import Path

from hermes.base.config import hermes_home
from hermes.base.log import discard_log
from hermes.base.scope import Interrupt
from hermes.surfaces.cli.arguments import Action, Argument, CommandSpec, flag
from hermes.surfaces.cli.failures import cancelled_by_signals
from hermes.surfaces.cli.runs.trace.session_argument import open_store, session_named
from hermes.surfaces.cli.terminal import plain

_FOLDER = "tests/hermes"
_EXAMPLES = f"""
examples:
  hermes test add 20250301_1412 --name word-count    writes {_FOLDER}/word-count.yaml and its recording
  hermes test run                                    every test below {_FOLDER}
  hermes test run --update                           accept changed requests where the expectations hold
"""


def _add(args: argparse.Namespace) -> None:
    from hermes.record.checks.cases import add_case

    with open_store() as store:
        path = add_case(store, session_named(store, args.session), Path(args.folder), args.name)
    print(f"wrote {path} and its recording; edit what it expects")


def _run(args: argparse.Namespace) -> int:
    from hermes.record.checks.cases import find_cases, run_case

    discard_log()
    failed = 0
    paths, interrupt = find_cases([Path(place) for place in args.places]), Interrupt()
    for path in paths:
        with cancelled_by_signals(interrupt):
            result = run_case(path, hermes_home(), update=args.update, interrupt=interrupt)
        word = "updated" if result.updated else "passed" if result.passed else "FAILED"
        print(f"{word}  {path}")
        for problem in result.problems:
            for line in problem.splitlines():
                print(f"  {plain(line)}")
        failed += not result.passed
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed else 0


COMMAND = CommandSpec(
    epilog=_EXAMPLES,
    actions=(
        Action("add", _add, "write a test for a session").takes(
            Argument("session SESSION", "a session's id (default: the last one)", nargs="?"),
            Argument("--name NAME", "name of the test (default: the id)", default=""),
            Argument("--folder DIR", f"where to write it (default: {_FOLDER})", default=_FOLDER),
        ),
        Action("run", _run, "run tests; exit code 1 when one fails").takes(
            Argument("places PATH", f"files or folders (default: {_FOLDER})", nargs="*", default=[_FOLDER]),
            flag("--update", "accept changed requests where the expectations hold"),
        ),
    ),
)
