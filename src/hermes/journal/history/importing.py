"""Import of exchanges that took place elsewhere: a conversation begins with them, and no model was asked for them."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.base.sanitize import Redactor
from hermes.base.scope import new_id
from hermes.journal.leases import SessionInfo, release_lease
from hermes.journal.runner import Runner
from hermes.journal.store.port import Store
from hermes.journal.turns.lifecycle import begin_turn
from hermes.journal.turns.steps import Message


def import_exchanges(
    store: Store,
    runner: Runner,
    session: SessionInfo,
    exchanges: Sequence[tuple[Message, str]],
    redactor: Redactor | None = None,
) -> None:
    """Add a finished turn for each user message and its answer, to a session that may be new."""
    for message, answer in exchanges:
        task_id = new_id("import-")
        masked = message if redactor is None else redactor.mask_data(message)
        turn = begin_turn(
            store,
            runner,
            session,
            turn_id=f"{session.id}:{task_id}",
            task_id=task_id,
            request_key=task_id,
            message=masked,
        )
        turn.redactor = redactor
        turn.message(1, 0, {"role": "assistant", "content": answer})
        turn.end("completed", answer=answer)
        turn.commit()
    release_lease(store, runner, session.id)
