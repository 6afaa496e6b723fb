"""One request to one endpoint: the provider attempt shared by the conversation, side jobs and ``ctx.llm``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import compress, count
from operator import ne
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import to_builtins
from msgspec.structs import replace

from hermes.journal.bodies import to_json
from hermes.journal.turns.steps import ModelCallRow
from hermes.models.costs.price_lookup import priced
from hermes.models.reply import Completion, Reply, reply_from

if TYPE_CHECKING:
    from hermes.agent.llm.budgets import CallBudget, Reservation
    from hermes.agent.llm.models import Models
    from hermes.base.sanitize import Redactor
    from hermes.base.scope import Interrupt
    from hermes.models.endpoint import Endpoint
    from hermes.models.wires.wire import HttpRequest, ModelRequest, Wire


class MessageTexts(msgspec.Struct):
    """The JSON of the messages that a turn sent last. A conversation sends most of them again: they are encoded once.

    One that was changed in place looks the same, so there is none for requests that plugins are given.
    """

    _messages: list[Any] = []
    _texts: list[bytes] = []

    def insert(self, messages: list[Any], frame: bytes) -> bytes:
        """The body of a request with these messages in the empty list at its end."""
        known = len(self._messages)
        if messages[:known] != self._messages:
            known = next(compress(count(), map(ne, self._messages, messages)), min(known, len(messages)))
        self._texts[known:] = map(msgspec.json.encode, messages[known:])
        self._messages = list(messages)
        return b"".join((frame[:-2], b",".join(self._texts), frame[-2:]))


class DigestingWire:
    """A wire that knows the SHA-256 of the request body it made last: the bytes as they are sent.

    It is taken when it is first asked for, so that sending does not wait for it.
    """

    def __init__(self, wire: Wire, texts: MessageTexts | None = None) -> None:
        self._wire = wire
        self._texts = texts
        self.kwargs, self.parser = wire.kwargs, wire.parser
        self._body: bytes | None = None
        self._sha256 = ""

    @property
    def sha256(self) -> str:
        """The digest; empty before the first request."""
        if self._body is not None:
            import hashlib  # loads OpenSSL, which only a turn needs

            self._sha256, self._body = hashlib.sha256(self._body).hexdigest(), None
        return self._sha256

    def http_request(self, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest:
        """The bytes to send for ``kwargs``."""
        request = self._from_texts(self._texts, endpoint, kwargs) if self._texts is not None else None
        request = request or self._wire.http_request(endpoint, kwargs)
        self._body = request.body
        return request

    def _from_texts(self, texts: MessageTexts, endpoint: Endpoint, kwargs: Mapping[str, Any]) -> HttpRequest | None:
        """The same request, of which only new messages are encoded; None when that cannot be done."""
        name = "input" if "input" in kwargs else "messages"
        request = self._wire.http_request(endpoint, {**kwargs, name: []})
        if not request.body.endswith(f'"{name}":[]}}'.encode()) or not isinstance(kwargs.get(name), list):
            return None
        try:
            return replace(request, body=texts.insert(kwargs[name], request.body))
        except (TypeError, ValueError, RecursionError, OverflowError):
            return None  # the wire repairs it, or says what is wrong


def call_content(attempt: Attempt, redactor: Redactor) -> str:
    """What was asked and answered beside a conversation, as JSON, without secrets and without the bytes of images."""
    from hermes.trace.clean import Cleaner  # few runs have such calls

    reply = None if attempt.reply is None else to_builtins(attempt.reply)
    return to_json(Cleaner(redactor).value({"request": request_content(attempt.request), "reply": reply}))


def request_content(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request without what steers only the client."""
    return {name: value for name, value in request.items() if name not in ("timeout", "http_client")}


def size_of(value: Any) -> int:
    """About how many characters part of a request has, without encoding it."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(str(name)) + size_of(item) + 6 for name, item in cast("dict[str, Any]", value).items())
    if isinstance(value, list):
        return sum(size_of(item) + 2 for item in cast("list[Any]", value))
    return 4


class Attempt:
    """Builds, sends and normalises one request, and is closed exactly once, whatever its outcome.

    As it is, it fires no hooks, runs no middleware and records nothing. Subclasses override ``prepare``, ``execute``
    and ``close``: the conversation for its hooks, middleware and journal, side jobs and plugins for their records.
    """

    def __init__(
        self,
        models: Models,
        endpoint: Endpoint,
        asked: ModelRequest,
        interrupt: Interrupt,
        *,
        timeout: float | None = None,
        budget: CallBudget | None = None,
    ) -> None:
        if asked.max_tokens is None and endpoint.max_tokens is not None:
            asked = replace(asked, max_tokens=endpoint.max_tokens)
        self.endpoint = endpoint
        self.interrupt = interrupt
        self.wire = models.wire_for(endpoint)
        self.transport = models.transport_for(endpoint)
        #: The keyword arguments of the wire; middleware may replace them.
        self.request: dict[str, Any] = self.wire.kwargs(endpoint, asked)
        if timeout is not None:
            self.request["timeout"] = timeout
        self.started_at = self.ended_at = 0.0
        self.first_piece_at: float | None = None
        self.reply: Reply | None = None
        #: What the attempt is charged to; ``None`` when nothing limits it.
        self.budget = budget
        #: The id under which the journal has it.
        self.recorded_as = ""

    def run(self) -> Reply:
        """Make the attempt. Raises ``ProviderError`` when it fails and ``Interrupted`` when it is cancelled."""
        self.prepare()
        held = None if self.budget is None else self.reserve(self.budget)
        try:
            return self._run()
        finally:
            if held is not None:
                reply, seconds = self.reply, self.ended_at - self.started_at
                held.add(self.recorded_as, reply and reply.usage, seconds, len(reply.content) if reply else 0)
                held.close()

    def _run(self) -> Reply:
        self.started_at = time.time()
        try:
            reply = self.reply = priced(self.execute(), self.endpoint, self.started_at)
        except BaseException as error:
            self.ended_at = time.time()
            self.judge(error)
            self.close(error)
            raise
        self.ended_at = time.time()
        self.close(None)
        return reply

    def prepare(self) -> None:
        """Change the request before the attempt starts."""

    def reserve(self, budget: CallBudget) -> Reservation:
        """Hold the room for the attempt in its budgets. Raises ``BudgetExceeded`` when there is none."""
        return budget.reserve(self)

    def execute(self) -> Reply:
        """Send the request and read the answer."""
        return reply_from(self.send(self.request))

    def send(self, request: dict[str, Any]) -> Completion:
        """Send keyword arguments of the wire."""
        return self.transport.send(self.endpoint, self.wire, request, interrupt=self.interrupt)

    def judge(self, error: BaseException) -> None:
        """Change the class of a failure before anything follows from it."""

    def close(self, error: BaseException | None) -> None:
        """Record the outcome: ``self.reply``, or ``error``."""

    def row(
        self,
        request_id: str,
        key: str,
        redactor: Redactor,
        error: BaseException | None,
        *,
        purpose: str = "",
        content: str | None = None,
    ) -> ModelCallRow:
        """The attempt as a row of the journal."""
        reply, started = self.reply, self.started_at
        self.recorded_as = request_id
        return ModelCallRow(
            api_request_id=request_id,
            key=key,
            provider=self.endpoint.provider,
            model=(reply.model if reply else "") or self.endpoint.model,
            # What is no Exception cancels the work: an interrupt, or the cancellation of a task.
            status="ok" if error is None else "error" if isinstance(error, Exception) else "interrupted",
            started_at=started,
            duration=self.ended_at - started,
            # A server may echo what it was sent.
            error=None if error is None else redactor.redact(f"{type(error).__name__}: {error}"),
            finish_reason=reply.finish_reason if reply else None,
            first_token=self.first_piece_at - started if reply and self.first_piece_at else None,
            purpose=purpose,
            content=content,
            **(reply.usage.as_columns() if reply and reply.usage else {}),
        )
