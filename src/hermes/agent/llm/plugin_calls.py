"""``ctx.llm`` on the host's side: every plugin's model calls, with their permissions, budgets, records and log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermes.agent.llm.models import Models
from hermes.agent.llm.plugin_options import (
    ModelQuestion,
    ModelRoute,
    PluginCallOptions,
    chat_messages,
    find_route,
    is_closed,
)
from hermes.agent.pipelines.attempt import call_content
from hermes.agent.pipelines.auxiliary_call import AuxiliaryAttempt, AuxiliaryCall
from hermes.agent.workers import Workers
from hermes.base.config.load import FreshConfig
from hermes.base.config.schema.sections import BudgetLimitsConfig
from hermes.base.errors import BudgetExceeded, HermesError, JournalError, ProviderError, did_you_mean
from hermes.base.sanitize import REDACTED
from hermes.base.scope import Interrupt, Scope, current_scope, new_id
from hermes.contract.llm import (
    PluginLlmBudgetError,
    PluginLlmCompleteResult,
    PluginLlmStructuredResult,
    PluginLlmTrustError,
    PluginLlmUsage,
)
from hermes.hooks.queue import BackgroundQueue
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import PLUGIN_KEY, ModelCallRow, record_plugin_calls
from hermes.models.endpoint import Endpoint
from hermes.models.reply import Reply
from hermes.models.retry import Attempts, Failure, Send, before_deadline, retry
from hermes.models.wires.wire import ModelRequest
from hermes.plugins.llm.structured import StructuredQuestion
from hermes.plugins.llm.trust import SETTINGS, Budget, budget_of, key_of, refusal, unknown_settings

if TYPE_CHECKING:
    from hermes.agent.llm.budgets import Reservation
    from hermes.models.endpoint import Endpoint

log = logging.getLogger("agent.plugin_llm")

#: Names of the response format in the error of a server that does not know it.
_FORMAT_NAMES = ("response_format", "json_schema", "json_object", "text.format", "output_config")
#: A shorter key is a placeholder such as "none", and may be a word of the answer.
_MIN_KEY_LENGTH = 8


class PluginCall:
    """One model call of a plugin. When the block ends, its outcome is logged in one line."""

    def __init__(self, owner: PluginModels, plugin: str, method: str, options: Mapping[str, Any]) -> None:
        self._owner = owner
        self.models = owner.models
        self._plugin = plugin
        self._method = method
        self._given = options
        self._scope = current_scope.get()
        self._id = new_id()[:12]
        self._options = PluginCallOptions()
        self._requests = 0
        #: Whether JSON is asked for by the prompt alone.
        self._by_prompt = False
        self._last: Endpoint | None = None
        self._facts: dict[str, object] = {}
        #: What the call holds in its budgets until it has ended.
        self._held: Reservation | None = None

    # -- before -------------------------------------------------------------------------------------------------

    def ask(self, question: ModelQuestion) -> None:
        """Find out whether and where the question may be asked. Nothing is sent."""
        options = self._options = PluginCallOptions.read(self._given)
        entries = self._owner.config.current().plugins.entries
        refused = refusal(self._plugin, entries, **options.choices)
        if refused is not None:
            raise PluginLlmTrustError(refused)
        budget = budget_of(self._plugin, entries)
        self._warn_of_unknown(entries)
        self._question = question
        main = self._owner.endpoints_of(self._scope.session_id if self._scope else "")
        self._route: ModelRoute = find_route(self.models, main, options, question)
        self._held = self._reserve(budget)

    def _reserve(self, limits: Budget) -> Reservation | None:
        """Hold the room for the call in its budgets; ``None`` when nothing limits it.

        Raises ``PluginLlmBudgetError`` when a budget is spent, and ``HermesError`` when the host is closed.
        """
        plugin, models, owner = self._plugin, self.models, self._owner
        if owner.is_closed:
            raise HermesError(f"plugin {plugin!r} may ask no model any more: the host is closed")
        if models.budgets is None:
            if not limits.is_limited:
                return None
            from hermes.agent.llm.budgets import Budgets  # few plugins have a limit

            models.budgets = Budgets(owner.store, models.config.budgets)
        budgets, setting = models.budgets, key_of(plugin, "")[:-1]
        today = BudgetLimitsConfig(tokens=limits.max_tokens_per_day, usd=limits.max_cost_usd_per_day)
        if limits.is_limited or models.config.budgets.plugin.is_set:
            owner.flush()
        calls = limits.max_calls_per_session
        accounts = budgets.plugin_accounts(plugin, self._session_id, calls, today, setting)
        longest = self._options.max_tokens or models.task(self._route.task).max_tokens
        request = {"messages": self._question.messages, **({"max_tokens": longest} if longest else {})}
        try:
            bound = budgets.bound_of(self._route.endpoints[0], request)
            return budgets.reserve(self._scope, bound, extra=accounts)
        except BudgetExceeded as error:
            reason = str(error).partition("is used up: ")[2]
        raise PluginLlmBudgetError(f"plugin {plugin!r} may ask no model now: {reason}")

    def _warn_of_unknown(self, entries: object) -> None:
        """Say once that a setting does nothing: a limit with a typing error is no limit."""
        for name in unknown_settings(self._plugin, entries):
            key = key_of(self._plugin, name)
            if key not in self._owner.warned_of:
                self._owner.warned_of.add(key)
                log.warning("%s does nothing: there is no such setting%s", key, did_you_mean(str(name), SETTINGS))

    @property
    def _session_id(self) -> str:
        return (self._scope.session_id if self._scope else "") or self._owner.run_id

    # -- during -------------------------------------------------------------------------------------------------

    def answer(self, interrupt: Interrupt | None = None) -> Reply:
        """Ask, in this thread."""
        interrupt = interrupt or (self._scope.interrupt if self._scope else Interrupt())

        def ask(send: Send) -> Reply | Failure:
            try:
                return self._attempt(send, interrupt).run()
            except ProviderError as error:
                failure = Failure(error)
            return ask(send) if self._format_was_refused(failure.error) else failure

        try:
            return retry(self._attempts(), interrupt, ask)
        except HermesError as error:
            failure = self._without_secrets(error)
        # Not in the block above, where the original would become its context.
        raise failure

    async def answer_async(self) -> Reply:
        """Ask, for a caller on an event loop: on a worker thread, which a cancelled task interrupts."""
        from hermes.base.http.threads import run_in_thread

        return await run_in_thread(self.answer, self._scope.interrupt if self._scope else None)

    def _attempts(self) -> Attempts:
        route, models = self._route, self.models
        self._deadline = time.monotonic() + (self._options.timeout or models.task_timeout(route.task))
        retries = models.config.auxiliary.transient_retries
        return before_deadline(self._deadline, models.attempts(route.endpoints, retries))

    def _attempt(self, send: Send, interrupt: Interrupt) -> PluginAttempt:
        endpoint, question, options = send.endpoint, self._question, self._options
        self._last = endpoint
        settings = self.models.task(self._route.task)
        # The messages ask for JSON too. One wire has no place for a schema that may leave properties open.
        only_closed = endpoint.api_mode == "anthropic_messages"
        by_prompt = self._by_prompt or (only_closed and not is_closed(question.response_format))
        asked = ModelRequest(
            self.models.redactor.mask_data(question.messages),
            max_tokens=options.max_tokens or settings.max_tokens,
            temperature=options.temperature,
            reasoning_effort=settings.reasoning_effort,
            response_format=None if by_prompt else question.response_format,
        )
        self._requests += 1
        timeout = max(self._deadline - time.monotonic(), 0.001)
        scope, number = self._scope or Scope(), self._requests
        call = AuxiliaryCall(
            self._route.task,
            scope,
            f"{scope.turn_id or self._session_id}:plugin:{self._id}:{number}",
            number,
            self._plugin,
            options.purpose,
        )
        return PluginAttempt(self, endpoint, asked, interrupt, call, timeout=timeout)

    def _format_was_refused(self, error: ProviderError) -> bool:
        """Whether a server refused the response format: then the request is repeated once without it."""
        if self._by_prompt or self._question.response_format is None:
            return False
        text = str(error).lower()
        self._by_prompt = error.reason == "bad_request" and any(name in text for name in _FORMAT_NAMES)
        return self._by_prompt

    def _without_secrets(self, error: HermesError) -> HermesError:
        """The same failure without anything that leads to a key: no cause, no context, redacted text."""
        text = self.models.redactor.redact(str(error))
        if isinstance(error, ProviderError):
            return ProviderError(
                text, reason=error.reason, status_code=error.status_code, retry_after=error.retry_after
            )
        return type(error)(text)

    def record(self, attempt: PluginAttempt, error: BaseException | None) -> None:
        """Record an attempt."""
        scope = self._scope or Scope()
        request_id = attempt.call.request_id
        key, redactor = PLUGIN_KEY + self._plugin, self.models.redactor
        content = call_content(attempt, redactor)
        row = attempt.row(request_id, key, redactor, error, purpose=self._options.purpose, content=content)
        self._owner.record(self._session_id, scope.turn_id, row)
        if self._held is not None:
            reply = attempt.reply
            self._held.add(request_id, reply and reply.usage, row.duration, len(reply.content) if reply else 0)

    # -- after --------------------------------------------------------------------------------------------------

    def result(self, reply: Reply) -> dict[str, Any]:
        """The fields of a result."""
        endpoint, options = self._last, self._options
        assert endpoint is not None
        usage = _usage(reply)
        self._facts = {"model": reply.model or endpoint.model, "tokens": usage.total_tokens}
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
        self._facts = {"model": fields["model"], "content_type": content_type, "tokens": fields["usage"].total_tokens}
        return PluginLlmStructuredResult(**fields, parsed=parsed, content_type=content_type)

    def __enter__(self) -> PluginCall:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if self._held is not None:
            self._held.close()
        if not log.isEnabledFor(logging.INFO):
            return
        last, options = self._last, self._options
        facts: dict[str, object] = {
            "plugin": self._plugin,
            "provider": last.provider if last else options.provider,
            "model": last.model if last else options.model,
            "purpose": options.purpose,
            **self._facts,
        }
        if error is not None:
            facts |= {"error": type(error).__name__}
        line = " ".join(f"{name}={_shown(value)}" for name, value in facts.items())
        reason = f": {self.models.redactor.redact(str(error))}" if error is not None else ""
        log.info("plugin_llm.%s %s%s", self._method, line, reason)


class PluginAttempt(AuxiliaryAttempt):
    """An attempt that is recorded, and whose reply does not hold the key it was asked with."""

    def __init__(
        self,
        owner: PluginCall,
        endpoint: Endpoint,
        asked: ModelRequest,
        interrupt: Interrupt,
        call: AuxiliaryCall,
        *,
        timeout: float,
    ) -> None:
        super().__init__(owner.models, endpoint, asked, interrupt, call, timeout=timeout)
        self._owner = owner

    def close(self, error: BaseException | None) -> None:
        """Remove the key from the reply and record the attempt."""
        reply, key = self.reply, self.endpoint.api_key
        if reply is not None and len(key) >= _MIN_KEY_LENGTH:  # there are servers that echo what they got
            reply.content = reply.content.replace(key, REDACTED)
            reply.model = reply.model.replace(key, REDACTED)
        super().close(error)
        self._owner.record(self, error)


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


class PluginModels:
    """Gives plugins access to models, for one host, and records their calls. Thread-safe.

    Rows are written in the background, as many at once as have come together, so that neither a caller nor an event
    loop waits for the disk. What a process leaves behind when it is killed may lack the last of them.
    """

    def __init__(
        self,
        models: Models,
        store: Store,
        workers: Workers,
        *,
        config: FreshConfig,
        endpoints_of: Callable[[str], Sequence[Endpoint]],
    ) -> None:
        """``endpoints_of`` returns the endpoints of a session; for an empty id, those of the next session."""
        self.models = models
        self.store = store
        self.config = config
        self.endpoints_of = endpoints_of
        #: The session of calls that are made outside of one.
        self.run_id = new_id("run_")
        #: Unknown settings that a warning was logged for.
        self.warned_of: set[str] = set()
        self._workers = workers
        self._queue = BackgroundQueue("plugin model calls")
        self._waiting: list[tuple[str, str, ModelCallRow]] = []
        self._writing = threading.Lock()
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        return self._is_closed or self._workers.is_closed

    def access(self, plugin: str) -> PluginModelAccess:
        """What one plugin calls."""
        return PluginModelAccess(self, plugin)

    def record(self, session_id: str, turn_id: str, row: ModelCallRow) -> None:
        """Queue an attempt to be recorded."""
        self._waiting.append((session_id, turn_id, row))
        self._queue.put(self._try_to_flush)

    def flush(self) -> None:
        """Write everything that is queued."""
        with self._writing:
            count = len(self._waiting)
            rows = self._waiting[:count]
            del self._waiting[:count]
            if rows and not self._is_closed:
                record_plugin_calls(self.store, rows)

    def _try_to_flush(self) -> None:
        try:
            self.flush()
        except JournalError as error:
            log.warning("the model calls of plugins were not recorded: %s", error)

    def close(self) -> None:
        """Record the calls that are not recorded yet. Calls that outlive the host are not recorded."""
        self._try_to_flush()
        self._is_closed = True
        self._queue.close()


class PluginModelAccess:
    """The four methods of ``ctx.llm``, for one plugin. The synchronous ones wait in their caller's thread alone."""

    __slots__ = ("_owner", "_plugin")

    def __init__(self, owner: PluginModels, plugin: str) -> None:
        self._owner = owner
        self._plugin = plugin

    def __repr__(self) -> str:
        return f"PluginModelAccess(plugin={self._plugin!r})"

    def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """Answer a conversation in text."""
        with PluginCall(self._owner, self._plugin, "complete", options) as call:
            call.ask(ModelQuestion(chat_messages(messages)))
            return PluginLlmCompleteResult(**call.result(call.answer()))

    async def acomplete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """``complete`` for a running event loop."""
        with PluginCall(self._owner, self._plugin, "complete", options) as call:
            call.ask(ModelQuestion(chat_messages(messages)))
            return PluginLlmCompleteResult(**call.result(await call.answer_async()))

    def complete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """Answer instructions and inputs with data."""
        with PluginCall(self._owner, self._plugin, "complete_structured", options) as call:
            wanted = StructuredQuestion.from_options(options)
            call.ask(ModelQuestion(wanted.messages, wanted.response_format))
            return call.structured_result(call.answer(), wanted)

    async def acomplete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        """``complete_structured`` for a running event loop."""
        with PluginCall(self._owner, self._plugin, "complete_structured", options) as call:
            wanted = StructuredQuestion.from_options(options)
            call.ask(ModelQuestion(wanted.messages, wanted.response_format))
            return call.structured_result(await call.answer_async(), wanted)
