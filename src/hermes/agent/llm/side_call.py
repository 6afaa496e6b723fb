"""A question to a model beside the conversation: no hooks, no middleware, the same attempts and the same accounts."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from hermes.agent.llm.source import ModelSource
from hermes.errors import ProviderError
from hermes.journal.steps import SIDE_KEY, ModelCallRow, record_model_call
from hermes.journal.store import Store
from hermes.models.billing import priced
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Reply, normalise
from hermes.models.retry import Failure, Send, retry
from hermes.models.wires.wire import ModelRequest
from hermes.sanitize import Redactor
from hermes.scope import Scope, new_id

log = logging.getLogger("hermes.side_call")


class SideModel:
    """Does side jobs: a summary, a second opinion, a look at an image. Each is on record with what it took."""

    def __init__(self, source: ModelSource, store: Store) -> None:
        self._source = source
        self._store = store

    def ask(
        self,
        task: str,
        messages: list[dict[str, Any]],
        *,
        scope: Scope,
        main: Sequence[Endpoint],
        max_tokens: int | None = None,
        temperature: float | None = None,
        fall_back: bool = True,
    ) -> Reply:
        """The answer for a job of that name (``auxiliary.<task>``); ``main`` is where the conversation is held.

        The job is tried there too when its own endpoint fails, unless ``fall_back`` is false.

        Raises ``ProviderError`` when every attempt failed and ``Interrupted`` when the work in hand was cancelled.
        """
        settings = self._source.task(task)
        asked = ModelRequest(
            messages,
            max_tokens=max_tokens or settings.max_tokens,
            temperature=temperature,
            reasoning_effort=settings.reasoning_effort,
        )

        def attempt(send: Send) -> Reply | Failure:
            request = self._source.wire_for(send.endpoint).kwargs(send.endpoint, asked)
            request["timeout"] = self._source.task_timeout(task)
            try:
                return self._attempt(task, send.endpoint, request, scope)
            except ProviderError as error:
                return Failure(error)

        endpoints = self._source.side_job(task, main)
        if not fall_back:
            endpoints = endpoints[:1]
        retries = self._source.config.auxiliary.transient_retries
        return retry(self._source.attempts(endpoints, retries), scope.interrupt, attempt)

    def _attempt(self, task: str, endpoint: Endpoint, request: dict[str, Any], scope: Scope) -> Reply:
        started_at, wire = time.time(), self._source.wire_for(endpoint)
        reply: Reply | None = None
        failure: BaseException | None = None
        try:
            answer = self._source.transport.send(endpoint, wire, request, interrupt=scope.interrupt, on_delta=None)
            reply = priced(normalise(answer), endpoint, started_at)
            return reply
        except BaseException as error:
            failure = error
            raise
        finally:
            self._record(task, endpoint, scope, started_at, reply, failure)

    def _record(
        self,
        task: str,
        endpoint: Endpoint,
        scope: Scope,
        started_at: float,
        reply: Reply | None,
        failure: BaseException | None,
    ) -> None:
        row = aside_row(
            f"{scope.turn_id or scope.session_id}:side:{new_id()[:12]}",
            SIDE_KEY + task,
            *(endpoint, started_at, reply, failure),
            self._source.redactor,
        )
        log.info("%s by %s: %s, %.3f s", row.key, row.model, row.error or row.status, row.duration)
        if scope.session_id:
            record_model_call(self._store, scope.session_id, scope.turn_id, row)


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
