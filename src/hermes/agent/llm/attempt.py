"""One request of a plugin's call, and how many of them fit into the time there is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes.errors import ProviderError
from hermes.journal.steps import ModelCallRow
from hermes.models.billing import priced
from hermes.models.reply import Reply, normalise
from hermes.models.retry import Attempts, Failure, Sleep
from hermes.sanitize import REDACTED, Redactor

if TYPE_CHECKING:
    from hermes.contract.response import Record
    from hermes.models.endpoint import Endpoint
    from hermes.models.wires.wire import Wire

#: What is shorter is a placeholder such as "none", and a word like any other.
_LEAST_KEY = 8


class Attempt:
    """One request of a call. A failure that another attempt may mend does not leave the block."""

    __slots__ = ("_record", "endpoint", "number", "outcome", "reply", "request", "started_at", "wire")

    def __init__(
        self,
        endpoint: Endpoint,
        wire: Wire,
        request: dict[str, Any],
        *,
        number: int,
        record: Callable[[Attempt, BaseException | None], None],
    ) -> None:
        self._record = record
        self.endpoint = endpoint
        self.number = number
        self.wire = wire
        self.request = request
        self.started_at = time.time()
        self.reply: Reply | None = None
        self.outcome: Reply | Failure = Reply()

    def answered(self, answer: Record) -> None:
        """Take the answer."""
        reply = priced(normalise(answer), self.endpoint, self.started_at)
        key = self.endpoint.api_key
        if len(key) >= _LEAST_KEY:  # there are servers that echo what they got
            reply.content = reply.content.replace(key, REDACTED)
            reply.model = reply.model.replace(key, REDACTED)
        self.outcome = self.reply = reply

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        self._record(self, error)
        if not isinstance(error, ProviderError):
            return False
        self.outcome = Failure(error)
        return True


def until(deadline: float, policy: Attempts) -> Attempts:
    """The attempts that fit into the time there is; afterwards, why the last one failed."""
    try:
        action = next(policy)
        while True:
            starts = time.monotonic() + (action.seconds if isinstance(action, Sleep) else 0)
            if action.after is not None and starts >= deadline:
                raise action.after
            outcome = yield action
            action = next(policy) if isinstance(action, Sleep) else policy.send(outcome)
    except StopIteration:
        return
    finally:
        policy.close()


def aside_row(
    request_id: str,
    key: str,
    endpoint: Endpoint,
    started_at: float,
    reply: Reply | None,
    failure: BaseException | None,
    redactor: Redactor,
    purpose: str = "",
) -> ModelCallRow:
    """One attempt beside the conversation, as the journal keeps it."""
    return ModelCallRow(
        api_request_id=request_id,
        key=key,
        provider=endpoint.provider,
        model=(reply.model if reply else "") or endpoint.model,
        # What is no Exception is somebody's wish that the work end: an interrupt, or a task that is cancelled.
        status="ok" if failure is None else "error" if isinstance(failure, Exception) else "interrupted",
        started_at=started_at,
        duration=time.time() - started_at,
        error=None if failure is None else redactor.redact(f"{type(failure).__name__}: {failure}"),
        finish_reason=reply.finish_reason if reply else None,
        purpose=purpose,
        **(reply.usage.as_columns() if reply and reply.usage else {}),
    )
