"""A process that records one event after another and reports each one once it is acknowledged, until it is killed."""

from __future__ import annotations

import os
import sys
import time

from hermes.base.errors import SessionBusy
from hermes.journal.runner import Runner
from hermes.journal.store.port import Store
from hermes.journal.store.sqlite import store as store_module
from hermes.journal.turns.lifecycle import reopen_turn
from hermes.journal.turns.steps import TurnJournal
from journal.kit import journal_at, start_turn


def taken_up(store: Store, runner: Runner, session_id: str) -> TurnJournal:
    """The turn that the process before this one left. A server takes a moment to notice that it died."""
    while True:
        try:
            return reopen_turn(store, runner, session_id, states=("running",)) or start_turn(store, runner, session_id)
        except SessionBusy:
            time.sleep(0.01)


def main(address: str, session_id: str, limit: int) -> None:
    # Often, so that processes die during checkpoints too.
    store_module.CHECKPOINT_EVERY_COMMITS = 7
    store = journal_at(address)
    runner = store.new_runner()
    turn = taken_up(store, runner, session_id)
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
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
