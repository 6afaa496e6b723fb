"""Error class: what plugins say about a failed attempt, as retries, fallbacks and compaction follow it."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from hermes.agent.pipelines.attempt import Attempt, size_of
from hermes.base.errors import RETRYABLE, HermesError, Interrupted, ProviderError, Recovery
from hermes.base.sanitize import Redactor, sanitise
from hermes.contract.events import ErrorClassification
from hermes.contract.failures import FAILURE_NAMES
from hermes.models.costs.price_lookup import known_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes.hooks.observers import Answer, Emitter

log = logging.getLogger("hermes.model")

#: How far back the causes of an error are followed.
_MOST_CAUSES = 5
#: A callback that asks a model itself would be asked about the failure of that, for ever.
_is_asking: ContextVar[bool] = ContextVar("hermes_error_classification", default=False)
_HINTS = ("retryable", "should_compress", "should_rotate_credential", "should_fallback")


def first_failure(error: BaseException) -> ProviderError | None:
    """The failure of a provider that an error is, or that execution middleware has translated into it."""
    cause: BaseException | None = error if isinstance(error, Exception) else None
    for _ in range(_MOST_CAUSES + 1):
        if isinstance(cause, ProviderError):
            return cause
        cause = None if cause is None or isinstance(cause, HermesError) else cause.__cause__ or cause.__context__
    return None


def reclassify(
    attempt: Attempt, error: BaseException, emit: Emitter[ErrorClassification], redactor: Redactor
) -> str | None:
    """Ask plugins for the class of a failure, and change it to what the first valid answer says; who gave that."""
    failure = first_failure(error)
    if failure is None or _is_asking.get():
        return None
    answers: Sequence[Answer] = ()
    token = _is_asking.set(True)
    try:
        answers = emit(_event(attempt, failure, redactor))
    except Interrupted:
        pass  # the attempt has its end all the same
    finally:
        _is_asking.reset(token)
    valid = [answer for answer in answers if _is_valid(answer)]
    for other in valid[1:]:
        log.warning("plugin %r also classified the failure; the answer of %r counts", other.plugin, valid[0].plugin)
    if not valid:
        return None
    _change(failure, valid[0].value, redactor)
    log.info("plugin %r classified the failure as %s", valid[0].plugin, failure.reason)
    return valid[0].plugin


def _event(attempt: Attempt, failure: ProviderError, redactor: Redactor) -> ErrorClassification:
    endpoint, request = attempt.endpoint, attempt.request
    messages: list[Any] = request.get("messages") or request.get("input") or []
    known = known_model(endpoint)
    text = redactor.redact(str(failure))
    body = sanitise(failure.body or {}, redactor=redactor)
    copy = ProviderError(text, reason=failure.reason, status_code=failure.status_code, retry_after=failure.retry_after)
    copy.code, copy.body = failure.code, body
    return ErrorClassification(
        provider=endpoint.provider,
        model=request.get("model") or endpoint.model,
        status_code=failure.status_code,
        error_type=type(failure).__name__,
        error_code=failure.code,
        error_message=text,
        error_body=body,
        error=copy,
        approx_tokens=(size_of(messages) + size_of(request.get("tools"))) // 4,
        context_length=endpoint.context_length or (known.context_window if known else None) or 0,
        num_messages=len(messages),
    )


def _is_valid(answer: Answer) -> bool:
    fields = answer.value
    reason: object = cast("dict[str, Any]", fields).get("reason") if isinstance(fields, dict) else None
    if isinstance(reason, str) and reason in FAILURE_NAMES:
        return True
    log.warning("plugin %r classified a failure with %r, which is no class of failure", answer.plugin, reason)
    return False


def _change(failure: ProviderError, fields: dict[str, Any], redactor: Redactor) -> None:
    reason = fields["reason"]
    failure.reason = FAILURE_NAMES[reason]
    hints = {name: fields[name] for name in _HINTS if isinstance(fields.get(name), bool)}
    failure.retryable = hints.get("retryable", failure.reason in RETRYABLE)
    failure.recovery = Recovery(
        rotate=hints.get("should_rotate_credential"),
        fall_back=hints.get("should_fallback"),
        compress=hints.get("should_compress"),
    )
    message = fields.get("message")
    if isinstance(message, str) and message.strip():
        failure.args = (redactor.redact(message),)
