"""``python -m tests.bench``: measures every row of the budget table; exits 1 when a budget is missed."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from importlib import import_module

from .measure import BenchFailed, sync_cost
from .table import Row, as_json, as_markdown, as_text
from .workspace import Workspace, open_workspace, source_path

ROWS = (
    "version",
    "one_shot",
    "prompt",
    "unused_mcp",
    "steps",
    "confined",
    "reads",
    "hook_site",
    "sanitising",
    "request_size",
    "concurrency",
    "approval",
    "compaction",
    "export",
    "replay",
    "children",
    "streams",
    "wires",
    "telemetry",
    "plugin_llm",
    "a2a",
    "everyday",
)


def main() -> int:
    options = _parser().parse_args()
    source = source_path()
    if source:
        sys.path.insert(0, source)
    try:
        with open_workspace(options.repeat) as workspace:
            _tell(_circumstances(workspace))
            rows = [row for name in options.only or ROWS for row in _measure(name, workspace)]
    except BenchFailed as failure:
        _tell(f"Error: {failure}")
        return 2
    except KeyboardInterrupt:
        return 130
    print(as_json(rows) if options.json else as_markdown(rows) if options.markdown else as_text(rows))
    return 1 if any(row.met is False for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", metavar="ROW", action="append", choices=ROWS, help=f"one of {', '.join(ROWS)}")
    parser.add_argument("--repeat", metavar="N", type=_positive, help="measure each row N times")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the rows as JSON")
    form.add_argument("--markdown", action="store_true", help="print the table as it stands in docs/benchmarks.md")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1 is needed")
    return number


def _measure(name: str, workspace: Workspace) -> list[Row]:
    _tell(f"measuring {name} …")
    # Imported one at a time: some rows need the runtime, and the path to it is only known by now.
    return import_module(f"tests.bench.{name}").measure(workspace)


def _circumstances(workspace: Workspace) -> str:
    sync = sync_cost(workspace.folder)
    return (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, a sync costs {sync * 1e3:.2f} ms in {workspace.folder.parent}"
    )


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
