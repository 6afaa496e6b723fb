"""``hermes eval``: a dataset answered by several models, scored; resumed where it was left."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.cli import open_home
from hermes.cli.arguments import positive_number
from hermes.cli.chat.signals import cancelled_by_signals
from hermes.cli.runs.trace.format import fitted_table
from hermes.cli.terminal import plain, print_json, write_private_file
from hermes.errors import Interrupted

if TYPE_CHECKING:
    from hermes.record.checks.evaluation import SampleResult

_EXAMPLES = """
A dataset has one JSON object per line, with 'input' and, as the scorer needs it, 'expected' and 'id'. Every sample is
a session of its own. The same command again continues where it was left, and asks nothing that was answered.

scorers:
  exact            the answer is 'expected', but for blanks around it
  regex            'expected' is a regular expression that matches
  schema[:FILE]    the answer is JSON that fits the schema in FILE, or in 'expected'
  command:COMMAND  a command that gets the sample and the answer as JSON, and ends with 0
  judge            a model (auxiliary.judge, or the one that answered) compares the answer with 'expected'

examples:
  hermes eval questions.jsonl --models small,large --scorer regex
  hermes eval questions.jsonl --models openai:gpt-5 --scorer judge --budget-usd 2 --html report.html
"""
_HEADINGS = ("MODEL", "SAMPLES", "SCORE", "FAILED", "SKIPPED", "TOKENS", "COST", "TIME")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument("dataset", metavar="DATASET", help="a JSONL file")
    parser.add_argument("--models", metavar="A,B", required=True, help="models, or PROVIDER:MODEL, separated by commas")
    parser.add_argument("--scorer", metavar="SCORER", default="exact", help="how answers are scored (default: exact)")
    parser.add_argument("--name", metavar="NAME", default="", help="name of the evaluation (default: that of the file)")
    parser.add_argument(
        "--parallel", metavar="N", type=positive_number, default=4, help="samples at a time (default: 4)"
    )
    parser.add_argument("--budget-usd", metavar="USD", type=float, help="start no sample once this is spent")
    parser.add_argument("--toolsets", metavar="NAMES", help="toolsets to offer, separated by commas")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--html", metavar="FILE", help="write a report that a browser shows")


def run(args: argparse.Namespace) -> int:
    """Run the evaluation and print the table."""
    from hermes.host import Host, HostOptions
    from hermes.record.checks.evaluation import Evaluation, read_dataset
    from hermes.record.checks.scorers import make_scorer

    home, redactor, loaded = open_home()
    path = Path(args.dataset)
    samples, scorer = read_dataset(path), make_scorer(args.scorer)
    models = [name.strip() for name in args.models.split(",") if name.strip()]
    toolsets = None if args.toolsets is None else [name.strip() for name in args.toolsets.split(",")]
    options = HostOptions(toolsets=toolsets, platform="eval", unattended=True)
    done = 0

    def show(result: SampleResult) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r{done}/{len(samples) * len(models)} {plain(result.sample)[:40]:<40}", end="", file=sys.stderr)

    with Host(home, loaded.config, options, redactor=redactor) as host:
        work = Evaluation(host, args.name or path.stem, scorer, args.budget_usd, args.parallel, show)
        try:
            with cancelled_by_signals(work.interrupt):
                results = work.run(samples, models)
        except Interrupted:
            total = len(samples) * len(models)
            print(f"{done} of {total} samples were answered; the same command continues here", file=sys.stderr)
            raise
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if args.html:
        write_private_file(Path(args.html), _page(args.name or path.stem, models, results))
    if args.json:
        print_json({"models": [_summary(model, results) for model in models], "results": results})
    elif not args.html:
        for line in fitted_table([_HEADINGS, *(_row(model, results) for model in models)], left=1):
            print(line)
    return 1 if any(one.status not in ("completed", "skipped") for one in results) else 0


def _summary(model: str, results: Sequence[SampleResult]) -> dict[str, object]:
    own = [one for one in results if one.model == model]
    scored = [one.score for one in own if one.score is not None]
    return {
        "model": model,
        "samples": len(own),
        "score": sum(scored) / len(scored) if scored else None,
        "failed": sum(one.status not in ("completed", "skipped") for one in own),
        "skipped": sum(one.status == "skipped" for one in own),
        "tokens": sum(one.tokens for one in own),
        "cost_usd": sum(one.cost_usd for one in own),
        "seconds": sum(one.seconds for one in own),
    }


def _row(model: str, results: Sequence[SampleResult]) -> tuple[str, ...]:
    found = _summary(model, results)
    score = found["score"]
    return (
        plain(model),
        str(found["samples"]),
        "-" if score is None else f"{score:.2f}",
        *(str(found[name]) for name in ("failed", "skipped", "tokens")),
        f"${found['cost_usd']:.4f}",
        f"{found['seconds']:.1f} s",
    )


def _page(name: str, models: Sequence[str], results: Sequence[SampleResult]) -> str:
    from hermes.record.html import page
    from hermes.record.html import table as html_table

    rows = [
        (one.sample, one.model, "-" if one.score is None else f"{one.score:.2f}", one.status, one.answer, one.reason)
        for one in results
    ]
    headings = ("sample", "model", "score", "status", "answer", "reason")
    parts = [html_table(_HEADINGS, [_row(model, results) for model in models]), html_table(headings, rows)]
    return page(name, parts)
