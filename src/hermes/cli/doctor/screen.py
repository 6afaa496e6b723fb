"""Checks of the terminal this runs in."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

from hermes.cli.doctor.finding import Finding, ok, warning
from hermes.cli.doctor.patient import Patient

_NARROW = 60


def check_terminal(_patient: Patient) -> Iterator[Finding]:
    """What the terminal can show."""
    encoding = (getattr(sys.stdout, "encoding", None) or "unknown").lower()
    if encoding.replace("-", "").replace("_", "") == "utf8":
        yield ok("encoding", encoding)
    else:
        yield warning("encoding", f"{encoding}: signs such as ✓ cannot be shown", command="export LANG=C.UTF-8")
    if not sys.stdout.isatty():
        yield ok("output", "not a terminal: no colours, 80 columns")
        return
    kind = os.environ.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        yield warning(
            "TERM", f"{kind or 'not set'}: no colours and no line editing", command="export TERM=xterm-256color"
        )
    else:
        colours = " without colours (NO_COLOR)" if "NO_COLOR" in os.environ else ""
        yield ok("TERM", f"{kind}{colours}")
    columns = shutil.get_terminal_size().columns
    if columns < _NARROW:
        yield warning("width", f"{columns} columns", f"make the window at least {_NARROW} columns wide; 80 are better")
    else:
        yield ok("width", f"{columns} columns")
