"""``hermes doctor``: looks at everything a run depends on and says what is wrong and how to put it right."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from hermes.cli.doctor.examination import GROUPS, examine
from hermes.cli.doctor.patient import Patient
from hermes.cli.doctor.report import Report, print_group, print_summary
from hermes.config import hermes_home


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"look only at these: {', '.join(GROUPS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--offline", action="store_true", help="send nothing over the network")
    parser.add_argument("--fix", action="store_true", help="repair what can be repaired without a decision of yours")
    parser.add_argument("--load", action="store_true", help="also load every enabled plugin, in a process of its own")
    parser.epilog = "Exit codes: 0 nothing is broken (there may be warnings), 1 something is, 2 wrong usage."


def run(args: argparse.Namespace) -> int:
    """Examine the home and report."""
    unknown = [name for name in args.groups if name not in GROUPS]
    if unknown:
        print(f"Error: unknown group {unknown[0]!r}; there are: {', '.join(GROUPS)}", file=sys.stderr)
        return 2
    # What others log on the way is a finding here or nothing at all.
    logging.getLogger("hermes").addHandler(logging.NullHandler())
    patient = Patient(hermes_home(), Path.cwd(), offline=args.offline, fix=args.fix, load=args.load)
    report = Report(str(patient.home))
    for group in examine(patient, args.groups):
        report.groups.append(group)
        if not args.json:
            print_group(group)
    if args.json:
        print(report.json())
    else:
        print_summary(report)
    return 0 if report.ok else 1
