"""``hermes eval``: a dataset answered by several models, scored; resumed where it was left."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.errors import Interrupted
from hermes.surfaces.cli import open_home
from hermes.surfaces.cli.arguments import JSON, Argument, CommandSpec, positive_number
from hermes.surfaces.cli.failures import cancelled_by_signals
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.terminal import plain, write_private_file

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


def _evaluate(args: argparse.Namespace) -> Report | int:
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
    return _concluded(args, args.name or path.stem, models, results)


def _concluded(
    args: argparse.Namespace, name: str, models: Sequence[str], results: Sequence[SampleResult]
) -> Report | int:
    if args.html:
        write_private_file(Path(args.html), _page(name, models, results))
    code = 1 if any(one.status not in ("completed", "skipped") for one in results) else 0
    if args.html and not args.json:
        return code
    return Report(
        {"models": [_summary(model, results) for model in models], "results": results},
        heads=_HEADINGS,
        rows=[_score_cells(model, results) for model in models],
        left=1,
        code=code,
    )


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


def _score_cells(model: str, results: Sequence[SampleResult]) -> tuple[str, ...]:
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
    parts = [html_table(_HEADINGS, [_score_cells(model, results) for model in models]), html_table(headings, rows)]
    return page(name, parts)


COMMAND = CommandSpec(
    run=_evaluate,
    arguments=(
        Argument("dataset DATASET", "a JSONL file"),
        Argument("--models A,B", "models, or PROVIDER:MODEL, separated by commas", required=True),
        Argument("--scorer SCORER", "how answers are scored (default: exact)", default="exact"),
        Argument("--name NAME", "name of the evaluation (default: that of the file)", default=""),
        Argument("--parallel N", "samples at a time (default: 4)", type=positive_number, default=4),
        Argument("--budget-usd USD", "start no sample once this is spent", type=float),
        Argument("--toolsets NAMES", "toolsets to offer, separated by commas"),
        JSON,
        Argument("--html FILE", "write a report that a browser shows"),
    ),
    epilog=_EXAMPLES,
)
