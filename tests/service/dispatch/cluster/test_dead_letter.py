"""A turn that ends every worker that takes it up: it is given up, and holds up no one else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.agent.session import TAKEN_UP_TOO_OFTEN
from hermes.journal.history.inspection import inspect_session
from hermes.journal.turns.recovery import MAX_TAKE_UPS
from hermes.testing import RecordedRequest, ScriptedProvider, text
from hermes.trace.verify.session import verify
from support.cluster_rig import ClusterRig, answer_of
from support.settled_turns import wait_turn
from support.waiting import HANG, wait_until

pytestmark = pytest.mark.slow


def test_a_turn_that_ends_every_worker_is_given_up(postgres_url: str, tmp_path: Path) -> None:
    killed: list[str] = []

    def script(request: RecordedRequest) -> Any:
        if request.last_user_text == "poison":
            ((runner,),) = rig.query("SELECT runner FROM sessions WHERE id = 's1'")
            (worker,) = [worker for worker in rig.workers if worker.id == runner]
            worker.kill()
            killed.append(runner)
        return text(f"Answer to {request.last_user_text}")

    with ScriptedProvider(script) as provider:
        rig = ClusterRig(tmp_path, postgres_url, provider, slots=2)
        try:
            surface = rig.dispatcher()
            poisoned = surface.submit(rig.request("poison")).turn_id

            # The first run, and each take-up; all of them on a worker of their own.
            for number in range(1, MAX_TAKE_UPS + 2):
                rig.start_workers(1)
                wait_until(lambda number=number: len(killed) == number, f"the end of worker {number}")
            rig.start_workers(1)
            wait_until(lambda: wait_turn(surface, poisoned, timeout=0.2).state == "ended", "the end of the turn")
            result = wait_turn(surface, poisoned).result
            assert result is not None and (result.status, result.error_type) == ("failed", TAKEN_UP_TOO_OFTEN)
            assert len(killed) == len(set(killed)) == MAX_TAKE_UPS + 1
            # Its session continues, on the worker that gave it up, and nothing of it is doubled.
            after = surface.submit(rig.request("and now?")).turn_id
            assert answer_of(wait_turn(surface, after, timeout=HANG)) == "Answer to and now?"
            assert verify(inspect_session(rig.host().store, "s1")) == []
            assert rig.query("SELECT count(*) FROM submissions WHERE worker = ''") == [(0,)]
        finally:
            rig.close()
