"""What a stream of 1,000 chunks costs against the bare client reading the same bytes, and 1,000 streams at once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

import msgspec

from .measure import BenchFailed, alternate
from .stream_run import Figures, Gathering
from .table import Row, against_floor
from .workspace import PROJECT, Workspace

BUDGET = 1.3
#: Each stream has a worker thread, and a thousand of them wait for one interpreter lock.
CROWD_BUDGET = 1.5
MANY = 1_000
FEW = 10
REPEAT = 20

_PROGRAM = f"import sys; sys.path.insert(0, {str(PROJECT)!r}); from tests.bench.stream_run import main; main()"


def measure(workspace: Workspace) -> list[Row]:
    """Three rows: direct and from an event loop against the bare client, and many streams against few."""
    with _serving() as address:
        arguments = ("compare", address, str(workspace.repeat or REPEAT))
        figures = msgspec.json.decode(_run(workspace, *arguments), type=Figures)
    what = "1,000-chunk stream, CPU, {}"
    return [
        against_floor(what.format("sync"), figures.ours * 1e3, figures.bare * 1e3, "ms", BUDGET),
        against_floor(what.format("async"), figures.ours_async * 1e3, figures.bare_async * 1e3, "ms", BUDGET),
        _crowd(workspace),
    ]


def _crowd(workspace: Workspace) -> Row:
    peak = 0

    def many() -> Gathering:
        nonlocal peak
        workspace.report()
        cost = _gather(workspace, MANY)
        peak = max(peak, workspace.report().peak)
        return cost

    crowds, groups = alternate(3, many, lambda: _gather(workspace, FEW), warm_up=False)
    crowd, group = (min(cost.cpu_per_stream for cost in costs) * 1e3 for costs in (crowds, groups))
    errors = [error for cost in (*crowds, *groups) for error in cost.errors]
    what = f"{MANY:,} concurrent streams on one event loop, CPU per stream"
    row = against_floor(what, crowd, group, "ms", CROWD_BUDGET, condition=f"that of {FEW} streams, no error")
    if errors:
        return replace(row, met=False, note=f"{len(errors)} errors, the first: {errors[0]}")
    if peak < MANY:
        return replace(row, met=False, note=f"only {peak} connections were open at the same time")
    return replace(row, note=f"every answer right, {peak:,} connections open at the same time")


def _gather(workspace: Workspace, at_once: int) -> Gathering:
    return msgspec.json.decode(_run(workspace, "gather", workspace.base_url, str(at_once), str(MANY)), type=Gathering)


def _run(workspace: Workspace, *arguments: str) -> str:
    output = workspace.python("-c", _PROGRAM, *arguments).stdout
    if not output.strip():
        raise BenchFailed(f"stream_run {' '.join(arguments)} printed nothing")
    return output


@contextmanager
def _serving() -> Generator[str]:
    command = [sys.executable, "-m", "tests.bench.stream_server"]
    pipe = subprocess.PIPE
    # Leaving the block closes its stdin, which ends the server.
    with subprocess.Popen(command, cwd=PROJECT, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        if not address:
            raise BenchFailed("the stream server did not start")
        yield address
