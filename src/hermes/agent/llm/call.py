"""One question of a plugin to a model: allowed, routed, tried, put on record, and told in the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes.agent.llm.attempt import Attempt, aside_row, until
from hermes.agent.llm.ledger import PluginLedger
from hermes.agent.llm.question import CallOptions, Question
from hermes.agent.llm.route import Route, Routes
from hermes.agent.llm.source import ModelSource
from hermes.config.fresh import FreshConfig
from hermes.contract.llm import PluginLlmStructuredResult, PluginLlmTrustError, PluginLlmUsage
from hermes.errors import HermesError, ProviderError, did_you_mean
from hermes.journal.steps import PLUGIN_KEY
from hermes.models.reply import Reply
from hermes.models.retry import Attempts, Failure, Send, retry
from hermes.models.wires.wire import ModelRequest
from hermes.plugins.llm.structured import StructuredQuestion
from hermes.plugins.llm.trust import SETTINGS, budget_of, key_of, refusal, unknown_settings
from hermes.scope import Interrupt, Scope, current_scope, new_id

if TYPE_CHECKING:
    from hermes.models.endpoint import Endpoint

log = logging.getLogger("agent.plugin_llm")

#: What a server calls the format that it does not know.
_FORMAT_NAMES = ("response_format", "json_schema", "json_object", "text.format")


@dataclass(frozen=True, slots=True)
class CallParts:
    """What calls need of the host."""

    source: ModelSource
    config: FreshConfig
    routes: Routes
    ledger: PluginLedger
    #: Stands for the session of calls that are made outside of one.
    run_id: str
    #: Settings that do nothing and were told already.
    warned_of: set[str] = field(default_factory=set[str])


class PluginCall:
    """One question under way. Whatever becomes of it, a line of the log says so when the block ends."""

    def __init__(self, parts: CallParts, plugin: str, method: str, options: Mapping[str, Any]) -> None:
        self._parts = parts
        self._source = parts.source
        self._plugin = plugin
        self._method = method
        self._given = options
        self._scope = current_scope.get()
        self._id = new_id()[:12]
        self._options = CallOptions()
        self._requests = 0
        self._in_words = False
        self._last: Endpoint | None = None
        self._told: dict[str, object] = {}

    # -- before -------------------------------------------------------------------------------------------------

    def ask(self, question: Question) -> None:
        """Find out whether and where the question may be asked. Nothing is sent."""
        options = self._options = CallOptions.read(self._given)
        entries = self._parts.config.current().plugins.entries
        refused = refusal(self._plugin, entries, **options.choices)
        if refused is not None:
            raise PluginLlmTrustError(refused)
        budget = budget_of(self._plugin, entries)
        self._warn_of_unknown(entries)
        self._question = question
        self._route: Route = self._parts.routes.find(options, question, self._scope.session_id if self._scope else "")
        self._parts.ledger.open(self._plugin, self._session_id, budget)

    def _warn_of_unknown(self, entries: object) -> None:
        """Say once that a setting does nothing: a limit with a typing error is no limit."""
        for name in unknown_settings(self._plugin, entries):
            key = key_of(self._plugin, name)
            if key not in self._parts.warned_of:
                self._parts.warned_of.add(key)
                log.warning("%s does nothing: there is no such setting%s", key, did_you_mean(str(name), SETTINGS))

    @property
    def _session_id(self) -> str:
        return (self._scope.session_id if self._scope else "") or self._parts.run_id

    # -- during -------------------------------------------------------------------------------------------------

    def answer(self, interrupt: Interrupt | None = None) -> Reply:
        """Ask, in this thread."""
        interrupt = interrupt or (self._scope.interrupt if self._scope else Interrupt())

        def ask(send: Send) -> Reply | Failure:
            with self._attempt(send) as attempt:
                answer = self._source.transport.send(
                    attempt.endpoint, attempt.wire, attempt.request, interrupt=interrupt, on_delta=None
                )
                attempt.answered(answer)
            return ask(send) if self._should_ask_in_words(attempt) else attempt.outcome

        try:
            return retry(self._attempts(), interrupt, ask)
        except HermesError as error:
            failure = self._cleaned(error)
        # Not in the block above, where the original would become its context.
        raise failure

    async def answer_async(self) -> Reply:
        """Ask, for a caller on an event loop: on a worker thread, which a cancelled task interrupts."""
        from hermes.http.threads import run_in_thread

        return await run_in_thread(self.answer, self._scope.interrupt if self._scope else None)

    def _attempts(self) -> Attempts:
        route, source = self._route, self._source
        self._deadline = time.monotonic() + (self._options.timeout or source.task_timeout(route.task))
        retries = source.config.auxiliary.transient_retries
        return until(self._deadline, source.attempts(route.endpoints, retries))

    def _attempt(self, send: Send) -> Attempt:
        endpoint, question, options = send.endpoint, self._question, self._options
        self._last = endpoint
        wire, settings = self._source.wire_for(endpoint), self._source.task(self._route.task)
        # The messages ask for JSON too. One format has no place for a schema that may leave properties open.
        in_words = self._in_words or endpoint.api_mode == "anthropic_messages"
        asked = ModelRequest(
            question.messages,
            max_tokens=options.max_tokens or settings.max_tokens,
            temperature=options.temperature,
            reasoning_effort=settings.reasoning_effort,
            response_format=None if in_words else question.response_format,
        )
        request = wire.kwargs(endpoint, asked)
        request["timeout"] = max(self._deadline - time.monotonic(), 0.001)
        self._requests += 1
        return Attempt(endpoint, wire, request, number=self._requests, record=self._record)

    def _should_ask_in_words(self, attempt: Attempt) -> bool:
        """Whether a server refused the format of the answer: the messages alone may do, and are tried once."""
        outcome = attempt.outcome
        if self._in_words or self._question.response_format is None or isinstance(outcome, Reply):
            return False
        told = str(outcome.error).lower()
        self._in_words = outcome.error.reason == "bad_request" and any(name in told for name in _FORMAT_NAMES)
        return self._in_words

    def _cleaned(self, error: HermesError) -> HermesError:
        """The same failure without anything that leads to a key: no cause, no context, no secret in its words."""
        text = self._source.redactor.redact(str(error))
        if isinstance(error, ProviderError):
            return ProviderError(
                text, reason=error.reason, status_code=error.status_code, retry_after=error.retry_after
            )
        return type(error)(text)

    def _record(self, attempt: Attempt, failure: BaseException | None) -> None:
        """Put an attempt on record."""
        scope = self._scope or Scope()
        row = aside_row(
            f"{scope.turn_id or self._session_id}:plugin:{self._id}:{attempt.number}",
            PLUGIN_KEY + self._plugin,
            *(attempt.endpoint, attempt.started_at, attempt.reply, failure),
            self._source.redactor,
            self._options.purpose,
        )
        self._parts.ledger.record(self._session_id, scope.turn_id, row)

    # -- after --------------------------------------------------------------------------------------------------

    def result(self, reply: Reply) -> dict[str, Any]:
        """The fields of a result."""
        endpoint, options = self._last, self._options
        assert endpoint is not None
        usage = _usage(reply)
        self._told = {"model": reply.model or endpoint.model, "tokens": usage.total_tokens}
        return {
            "text": reply.content,
            "provider": endpoint.provider,
            "model": reply.model or endpoint.model,
            "agent_id": self._route.agent_id,
            "usage": usage,
            "audit": {"plugin_id": self._plugin, "purpose": options.purpose, "profile": self._route.profile},
        }

    def structured_result(self, reply: Reply, wanted: StructuredQuestion) -> PluginLlmStructuredResult:
        """The result as data. ``ValueError`` when it does not fit the schema."""
        fields = self.result(reply)
        fields["audit"]["schema_name"] = self._given.get("schema_name") or ""
        parsed, content_type = wanted.read(reply.content)
        self._told = {"model": fields["model"], "content_type": content_type, "tokens": fields["usage"].total_tokens}
        return PluginLlmStructuredResult(**fields, parsed=parsed, content_type=content_type)

    def __enter__(self) -> PluginCall:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        last, options = self._last, self._options
        facts: dict[str, object] = {
            "plugin": self._plugin,
            "provider": last.provider if last else options.provider,
            "model": last.model if last else options.model,
            "purpose": options.purpose,
            **self._told,
        }
        if error is not None:
            facts |= {"error": type(error).__name__}
        line = " ".join(f"{name}={_shown(value)}" for name, value in facts.items())
        told = f": {self._source.redactor.redact(str(error))}" if error is not None else ""
        log.info("plugin_llm.%s %s%s", self._method, line, told)


def _usage(reply: Reply) -> PluginLlmUsage:
    usage = reply.usage
    if usage is None:
        return PluginLlmUsage()
    return PluginLlmUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_usd=usage.cost_usd,
    )


def _shown(value: object) -> str:
    """A value that cannot be taken for another one: quoted where it has blanks."""
    text = str(value)
    if not text:
        return "-"
    return repr(text) if any(character.isspace() or character in "'\"=" for character in text) else text
