"""``hermes trace diff`` and ``hermes trace bisect``: two recorded runs compared, and why they differ."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hermes.base.config import Config, hermes_home
from hermes.base.config.load import load_text
from hermes.base.errors import HermesError
from hermes.base.log import discard_log
from hermes.base.scope import Interrupt
from hermes.surfaces.cli.failures import cancelled_by_signals
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.runs.record.source import open_run
from hermes.surfaces.cli.terminal import plain, print_lines, write_private_file

if TYPE_CHECKING:
    from hermes.record.compare import Difference
    from hermes.record.recording import Recording, Totals


def run_diff(args: argparse.Namespace) -> Report | int:
    """Compare two runs."""
    from hermes.record.compare import compare_recordings
    from hermes.record.recording import totals_of

    with contextlib.ExitStack() as stack:
        runs = [stack.enter_context(open_run(name)).recording() for name in (args.before, args.after)]
    differences = compare_recordings(runs[0], runs[1], strict=args.strict)
    totals = [totals_of(run) for run in runs]
    if args.html:
        write_private_file(Path(args.html), _page(runs, differences, totals))
        if not args.json:
            return 1 if differences else 0
    document = {"a": runs[0].id, "b": runs[1].id, "differences": differences, "totals": totals}
    return Report(document, _difference_lines(runs, differences, totals), code=1 if differences else 0)


def _difference_lines(runs: list[Recording], differences: list[Difference], totals: list[Totals]) -> Iterator[str]:
    from hermes.record.compare import difference_lines

    for difference in differences:
        yield from difference_lines(difference, names=(runs[0].id, runs[1].id))
    if not differences:
        yield "the same"
    for name, one, other in _total_rows(totals):
        if one != other:
            yield f"{name}: {one} -> {other}"


def _total_rows(totals: list[Totals]) -> list[tuple[str, str, str]]:
    return [
        (name.replace("_", " "), _number_text(getattr(totals[0], name)), _number_text(getattr(totals[1], name)))
        for name in totals[0].__struct_fields__
    ]


def _number_text(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4f}" if isinstance(value, float) else f"{value:,}"


def _page(runs: list[Recording], differences: list[Difference], totals: list[Totals]) -> str:
    from hermes.record.compare import difference_lines
    from hermes.record.html import diff_block, page, table

    parts = [table(("", runs[0].id, runs[1].id), _total_rows(totals))]
    parts += [diff_block(one.place, difference_lines(one)[1:]) for one in differences]
    return page(f"{len(differences)} differences", parts)


def run_bisect(args: argparse.Namespace) -> int:
    """Find the setting or plugin that changes a run."""
    from hermes.record.bisect import bisect
    from hermes.record.compare import difference_lines
    from hermes.record.replay.replay import ReplayResult, replay

    name: str = args.run or args.before
    if name == args.before and _is_config(name):
        raise HermesError(f"{name} is a configuration; name the run that is replayed with --run")
    before, after = _config_of(args.before), _config_of(args.after)
    discard_log()
    interrupt = Interrupt()
    with open_run(name) as source, cancelled_by_signals(interrupt):

        def run(config: Config) -> ReplayResult:
            return replay(source.store, source.session_id, hermes_home(), config, interrupt=interrupt)

        found = bisect(before, after, run)
    print(f"{found.changes} settings differ; {found.replays} replays")
    if found.culprit is None:
        print("none of them changes the run")
        return 1
    print(plain(str(found.culprit)))
    if found.result is not None and found.result.differences:
        print_lines(difference_lines(found.result.differences[0]))
    return 0


def _is_config(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml") and Path(name).is_file()


def _config_of(name: str) -> Config:
    """The settings in a file, or those that a run was recorded with."""
    from hermes.record.replay.replay import recorded_config

    if _is_config(name):
        return load_text(Path(name).read_text("utf-8"), Path(name), {}).config
    with open_run(name) as source:
        config = recorded_config(source.recording())
    if config is None:
        raise HermesError(f"{name} was recorded without its settings; give a config.yaml instead")
    return msgspec.convert(msgspec.to_builtins(config), Config)
