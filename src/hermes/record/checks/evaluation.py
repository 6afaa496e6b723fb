"""Evaluation: a dataset answered by several models, scored, and resumed from the journal where it was left."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from hermes.agent.llm.model_runtime import ModelRuntime
from hermes.agent.session import Session
from hermes.base.errors import HermesError, SessionNotFound
from hermes.base.scope import Interrupt, Scope
from hermes.host import Host
from hermes.journal.sessions import Sessions
from hermes.record.checks.scorers import Sample, Score, Scorer
from hermes.record.recording import Recording, load_recording, totals_of

_TASK = "judge"
_REQUEST_KEY = "sample"


class SampleResult(msgspec.Struct, frozen=True):
    """One sample answered by one model."""

    sample: str
    model: str
    session_id: str
    #: ``completed``, ``failed``, ``interrupted``, or ``skipped`` when the budget was spent.
    status: str
    answer: str
    score: float | None
    reason: str
    seconds: float
    tokens: int
    cost_usd: float
    #: Whether an earlier run had answered it.
    resumed: bool = False


def read_dataset(path: Path) -> list[Sample]:
    """The samples of a JSONL file: ``input`` and, as the scorer needs it, ``expected`` and ``id``."""
    samples: list[Sample] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise HermesError(f"{path}: cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fields = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise HermesError(f"{path}, line {number}: this is not a JSON object: {error}") from None
        if not isinstance(fields.get("input"), str):
            raise HermesError(f"{path}, line {number}: 'input' is missing; each line needs it as a text")
        samples.append(Sample(str(fields.get("id", number)), fields["input"], fields.get("expected"), fields))
    repeated = {sample.id for sample in samples if sum(other.id == sample.id for other in samples) > 1}
    if not samples or repeated:
        raise HermesError(f"{path}: " + (f"the id {min(repeated)!r} is there twice" if repeated else "has no sample"))
    return samples


class Evaluation(msgspec.Struct):
    """One evaluation on a host. The same name, model and sample are one session, so that it can be resumed."""

    host: Host
    name: str
    scorer: Scorer
    #: Dollars after which no further sample is started; None means no limit.
    budget_usd: float | None = None
    parallel: int = 4
    #: Called with each result as it comes.
    when_done: Callable[[SampleResult], None] = lambda _result: None
    interrupt: Interrupt = msgspec.field(default_factory=Interrupt)
    _spent: float = 0.0
    _lock: threading.Lock = msgspec.field(default_factory=threading.Lock)

    def run(self, samples: Sequence[Sample], models: Sequence[str]) -> list[SampleResult]:
        """Answer and score every sample with every model, in the order of the dataset.

        Raises ``Interrupted`` when it was cancelled: the answers until then are recorded.
        """
        runtimes = {model: self._models(model) for model in models}
        with ThreadPoolExecutor(self.parallel) as pool:
            tasks = [pool.submit(self._one, sample, model, runtimes[model]) for sample in samples for model in models]
            try:
                return [task.result() for task in tasks]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _models(self, name: str) -> ModelRuntime:
        provider, _, model = name.partition(":")
        known = {*self.host.models.profiles, *self.host.config.providers, "custom"}
        if model and provider in known:
            return self.host.models.conversation(provider=provider, model=model)
        return self.host.models.conversation(model=name)

    def _one(self, sample: Sample, model: str, models: ModelRuntime) -> SampleResult:
        self.interrupt.check()
        place = msgspec.json.encode([self.name, model, sample.id, sample.input])
        session_id = f"eval_{hashlib.sha256(place).hexdigest()[:20]}"
        known = self._known(session_id)
        if known is None:
            with self._lock:
                is_spent = self.budget_usd is not None and self._spent >= self.budget_usd
            if is_spent:
                why = "the budget is spent"
                return self._report(SampleResult(sample.id, model, "", "skipped", "", None, why, 0.0, 0, 0.0))
        session = self._session(session_id, models, is_new=known is None)
        if known is None:
            session.run(sample.input, request_key=_REQUEST_KEY, interrupt=self.interrupt)
        elif known.turns[0].state != "completed":
            session.finish_open_turn(interrupt=self.interrupt)
        self.interrupt.check()
        recording = load_recording(self.host.store, session_id)
        turn = recording.turns[0]
        score = Score(0.0, turn.error or "no answer")
        if turn.state == "completed" and turn.answer is not None:
            score = self._score(sample, turn.answer, recording, session)
        totals = totals_of(load_recording(self.host.store, session_id))
        if known is None:
            with self._lock:
                self._spent += totals.cost_usd or 0.0
        session.close()
        tokens = totals.input_tokens + totals.output_tokens
        resumed = known is not None and known.turns[0].state == "completed"
        answer = turn.answer or ""
        return self._report(
            SampleResult(
                sample.id,
                model,
                session_id,
                turn.state,
                answer,
                score.value,
                score.reason,
                totals.seconds,
                tokens,
                totals.cost_usd or 0.0,
                resumed,
            )
        )

    def _report(self, result: SampleResult) -> SampleResult:
        with self._lock:
            self.when_done(result)
        return result

    def _known(self, session_id: str) -> Recording | None:
        try:
            found = load_recording(self.host.store, Sessions(self.host.store).get(session_id).id)
        except SessionNotFound:
            return None
        return found if found.turns else None

    def _session(self, session_id: str, models: ModelRuntime, *, is_new: bool) -> Session:
        host = self.host
        session = Session(
            host.runtime,
            session_id,
            models=models,
            offered=host.offered_tools(),
            max_steps=host.options.max_turns or host.config.agent.max_turns,
            cwd=host.cwd,
            platform=host.options.platform,
            is_new=is_new,
        )
        session.title = f"{self.name}: {session_id}"
        return host.open_sessions.add(session)

    def _score(self, sample: Sample, answer: str, recording: Recording, session: Session) -> Score:
        def ask(prompt: str) -> str:
            # A judgement is paid for once: the record has it.
            for call in recording.turns[0].calls:
                exchange = call.exchange() if call.key == f"side:{_TASK}" else None
                if exchange and exchange["reply"]:
                    return str(exchange["reply"].get("content") or "")
            scope = Scope(session_id=recording.id, turn_id=recording.turns[0].id, interrupt=self.interrupt)
            messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
            return self.host.side.ask(_TASK, messages, scope=scope, main=session.models.endpoints).content

        return self.scorer(sample, answer, ask)
