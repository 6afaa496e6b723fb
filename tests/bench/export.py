"""CPU for a session of 10,000 steps, read from the journal and written as ATIF, and whether it grows with that only."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from .table import TIMES, Row
from .workspace import Workspace

BUDGET_SECONDS = 2.0
STEPS = 10_000
FEW_STEPS = 1_000
#: Ten times the steps may take this much more than ten times as long.
MOST_GROWTH = 1.5
REPEAT = 3

_RESULT = '{"content": "' + "a line of a file that was read\\n" * 20 + '"}'


def measure(workspace: Workspace) -> list[Row]:
    """Two rows: the time for the long session, and its time per step against that of a short one."""
    from hermes.journal.store.sqlite.store import SqliteStore
    from hermes.trace.formats.atif import document
    from hermes.trace.journal.session import session_record

    path = workspace.folder / "export" / "state.db"
    for steps in (FEW_STEPS, STEPS):
        write_session(path, f"session-{steps}", steps)
    with closing(SqliteStore(path)) as store:

        def export(session_id: str) -> int:
            return len(msgspec.json.encode(document(session_record(store, session_id))))

        few, _ = _best(lambda: export(f"session-{FEW_STEPS}"), workspace.repeat or REPEAT)
        many, size = _best(lambda: export(f"session-{STEPS}"), workspace.repeat or REPEAT)
    growth = (many / STEPS) / (few / FEW_STEPS)
    what = f"a session of {STEPS:,} steps from the journal to ATIF"
    note = f"{size / 1e6:.0f} MB"
    limit = f"≤ {MOST_GROWTH:g}{TIMES}"
    return [
        Row(what, many, None, "s", f"≤ {BUDGET_SECONDS:g} s", many <= BUDGET_SECONDS, note),
        Row(
            f"{what}, per step against {FEW_STEPS:,}",
            growth,
            None,
            TIMES,
            limit,
            growth <= MOST_GROWTH,
        ),
    ]


def _best(work: Callable[[], int], repeat: int) -> tuple[float, int]:
    best, result = float("inf"), 0
    for _ in range(repeat):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result


def write_session(path: Path, session_id: str, steps: int) -> None:
    """Put a session on record whose one turn reads a file in every step."""
    from hermes.journal.leases import SessionInfo
    from hermes.journal.runner import FileRunner
    from hermes.journal.store.sqlite.store import SqliteStore
    from hermes.journal.turns.lifecycle import begin_turn
    from hermes.journal.turns.steps import ModelCallRow

    now = time.time() - steps
    with closing(SqliteStore(path)) as store, closing(FileRunner(path.parent / "runners")) as runner:
        info = SessionInfo(session_id, "/", "cli", "custom", "scripted", None, None)
        message = {"role": "user", "content": "Read them all."}
        turn_id = f"{session_id}:turn"
        turn = begin_turn(store, runner, info, turn_id=turn_id, task_id="t", request_key="t", message=message)
        turn.step("setup", "done", "pure", {"system": "You read.", "tools": [], "max_steps": steps, "context": ""})
        for number in range(1, steps + 1):
            args = {"path": f"note-{number}.txt"}
            call = {"id": f"call_{number}", "name": "read_file", "arguments": msgspec.json.encode(args).decode()}
            reply = {"content": "", "reasoning": "The next one.", "tool_calls": [call]}
            row = ModelCallRow(
                f"{turn_id}:api:{number}", f"model:{number}", "custom", "scripted", "ok", now + number, 0.5
            )
            turn.model_call(row)
            turn.step(f"model:{number}", "done", "model", {"reply": reply, "api_request_id": row.api_request_id})
            result = {"id": call["id"], "name": call["name"], "args": args, "result": _RESULT, "status": "ok"}
            turn.step(
                f"tool:{number}.0",
                "done",
                "pure",
                {**result, "error_type": None, "error_message": None, "duration_ms": 3},
            )
        turn.end("completed", answer="Done.")
        turn.commit()
