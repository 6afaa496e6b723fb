"""Side jobs: model calls beside the conversation, such as a summary. They run no middleware."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from hermes.agent.llm.models import Models
from hermes.agent.pipelines.attempt import call_content
from hermes.agent.pipelines.auxiliary_call import AuxiliaryAttempt, AuxiliaryCall
from hermes.base.errors import ProviderError
from hermes.base.scope import Scope, new_id
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import SIDE_KEY, record_model_call
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Reply
from hermes.models.retry import Failure, Send, retry
from hermes.models.wires.wire import ModelRequest

log = logging.getLogger("hermes.side_call")


class SideModel:
    """Makes the model calls of side jobs: a summary, an approval by a model, the description of an image.

    Each attempt is recorded with its usage, in the session it is made for.
    """

    def __init__(self, models: Models, store: Store) -> None:
        self._models = models
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
        """The answer for the job ``auxiliary.<task>``; ``main`` are the endpoints of the conversation.

        They are tried too when the job's own endpoint fails, unless ``fall_back`` is false.

        Raises ``ProviderError`` when every attempt failed and ``Interrupted`` when the scope is cancelled.
        """
        settings = self._models.task(task)
        asked = ModelRequest(
            self._models.redactor.mask_data(messages),
            max_tokens=max_tokens or settings.max_tokens,
            temperature=temperature,
            reasoning_effort=settings.reasoning_effort,
        )

        def attempt(send: Send) -> Reply | Failure:
            request_id = f"{scope.turn_id or scope.session_id}:side:{new_id()[:12]}"
            call = AuxiliaryCall(task, scope, request_id, send.number)
            try:
                return _SideAttempt(self._models, self._store, send.endpoint, asked, call).run()
            except ProviderError as error:
                return Failure(error)

        endpoints = self._models.side_job(task, main)
        if not fall_back:
            endpoints = endpoints[:1]
        retries = self._models.config.auxiliary.transient_retries
        return retry(self._models.attempts(endpoints, retries), scope.interrupt, attempt)


class _SideAttempt(AuxiliaryAttempt):
    """An attempt that is recorded with the session it is made for."""

    def __init__(
        self, models: Models, store: Store, endpoint: Endpoint, asked: ModelRequest, call: AuxiliaryCall
    ) -> None:
        scope = call.scope
        budget = models.budgets and models.budgets.for_call(scope, allow_less=True)
        timeout = models.task_timeout(call.task)
        super().__init__(models, endpoint, asked, scope.interrupt, call, timeout=timeout, budget=budget)
        self._store = store

    def close(self, error: BaseException | None) -> None:
        """Record the attempt."""
        super().close(error)
        scope, key = self.call.scope, SIDE_KEY + self.call.task
        content = call_content(self, self.redactor)
        row = self.row(self.call.request_id, key, self.redactor, error, content=content)
        log.info("%s by %s: %s, %.3f s", row.key, row.model, row.error or row.status, row.duration)
        if scope.session_id:
            record_model_call(self._store, scope.session_id, scope.turn_id, row)
