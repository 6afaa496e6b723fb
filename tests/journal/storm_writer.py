"""A process that records one event after another and reports each one once it is acknowledged, until it is killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hermes.journal.runner import FileRunner
from hermes.journal.sqlite import store as store_module
from hermes.journal.sqlite.store import SqliteStore
from hermes.journal.turns import reopen_turn
from journal.kit import start_turn


def main(folder: Path, session_id: str, limit: int) -> None:
    # Often, so that processes die during checkpoints too.
    store_module.CHECKPOINT_EVERY_COMMITS = 7
    store, runner = SqliteStore(folder / "state.db"), FileRunner(folder / "runners")
    turn = reopen_turn(store, runner, session_id, states=("running",)) or start_turn(store, runner, session_id)
    first = len(turn.steps)
    for number in range(first, first + limit):
        turn.step(f"tick:{number}", "done", "pure", {"text": "x" * (number % 50) * 40})
        turn.message(number + 1, 0, {"role": "assistant", "content": f"tick {number}"})
        if number % 20 == 0:
            turn.event("large", "", "y" * 40_000 + str(number % 3))
        turn.commit()
        os.write(1, b"%d\n" % number)
    store.close()
    runner.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
