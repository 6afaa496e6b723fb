"""``hermes model test``: sends one small request as a conversation does, and reports the result in one line."""

from __future__ import annotations

import argparse
import time

import msgspec
from msgspec.structs import astuple, replace

from hermes.agent.pipelines.attempt import Attempt
from hermes.base.errors import ConfigError, HermesError, ProviderError
from hermes.base.scope import Interrupt
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.reply import Reply
from hermes.models.retry import Failure, Send, attempts, retry
from hermes.models.wires.wire import ModelRequest
from hermes.surfaces.cli.report import Report
from hermes.surfaces.cli.setup.model.problems import ModelProblem, address_of, explain, split_advice
from hermes.surfaces.cli.setup.model.setup import LIST_TIMEOUTS, ModelSetup
from hermes.surfaces.cli.terminal import one_line, short_duration

#: A model may have to be loaded before it can answer.
_FIRST_ANSWER = Timeouts(connect=10.0, first_byte=60.0, between_chunks=30.0, total=90.0)
#: Enough for a word. A model that thinks first may use them up without one, which is an answer too.
_FEW_TOKENS = 16


class ProbeResult(msgspec.Struct):
    """The result of the request."""

    ok: bool
    provider: str = ""
    model: str = ""
    address: str = ""
    api_mode: str = ""
    #: The model that says it answered, which may be another name for the same.
    answered_as: str = ""
    latency_ms: int | None = None
    #: The kind of problem: key, model, url, tls, proxy, dns, connection, timeout, billing and so on.
    problem: str = ""
    detail: str = ""
    fix: str = ""


def run_test(args: argparse.Namespace, setup: ModelSetup) -> Report:
    """Test the model that is named, or the one in use."""
    outcome = _outcome(setup, args.words)
    if outcome.ok:
        known_as = f", which calls itself {outcome.answered_as}" if outcome.answered_as != outcome.model else ""
        took = short_duration((outcome.latency_ms or 0) / 1000)
        return Report(outcome, [f"{outcome.model} at {outcome.provider} works: it answered in {took}{known_as}"])
    problem = ModelProblem("other", outcome.detail, outcome.fix).line
    line = one_line(setup.redactor.redact(f"{outcome.problem}: {problem}"))
    return Report(outcome, notes=[f"Error: {line}"], code=1)


def _outcome(setup: ModelSetup, words: list[str]) -> ProbeResult:
    try:
        endpoint = setup.endpoint(*setup.named(words)) if words else setup.current()
    except ConfigError as error:
        detail, fix = split_advice(error)
        return ProbeResult(ok=False, problem="setup", detail=detail, fix=fix)
    outcome = ProbeResult(
        ok=False,
        provider=endpoint.provider,
        model=endpoint.model,
        address=address_of(endpoint),
        api_mode=endpoint.api_mode,
    )
    used = [endpoint]
    started = time.monotonic()
    try:
        answer = _ask(setup, endpoint, used)
    except HermesError as error:
        problem = _explained(setup, error, used[-1])
        outcome.problem, outcome.detail, outcome.fix = problem.kind, setup.redactor.redact(problem.detail), problem.fix
        return outcome
    outcome.ok, outcome.latency_ms = True, round((time.monotonic() - started) * 1000)
    outcome.answered_as = answer.model or endpoint.model
    return outcome


def _ask(setup: ModelSetup, endpoint: Endpoint, used: list[Endpoint]) -> Reply:
    """The answer, with any of the provider's keys; each endpoint that is tried is added to ``used``."""
    interrupt = Interrupt()
    question = ModelRequest([{"role": "user", "content": "Hello."}], max_tokens=_FEW_TOKENS)

    def attempt(send: Send) -> Reply | Failure:
        used.append(send.endpoint)
        try:
            return Attempt(setup.models, send.endpoint, question, interrupt).run()
        except ProviderError as error:
            return Failure(error)

    # The endpoint's limits where they are shorter than those of a test.
    limits = zip(astuple(endpoint.timeouts), astuple(_FIRST_ANSWER), strict=True)
    limited = replace(endpoint, timeouts=Timeouts(*(min(own or usual, usual) for own, usual in limits)))
    return retry(attempts([limited], 0, keys=setup.keys), interrupt, attempt)


def _explained(setup: ModelSetup, error: HermesError, used: Endpoint) -> ModelProblem:
    models: list[str] | None = None
    if isinstance(error, ProviderError) and error.reason in ("model_missing", "bad_request"):
        try:
            models = setup.list_models_at(replace(used, timeouts=LIST_TIMEOUTS), refresh=True)
        except HermesError:
            models = None  # what the model itself was asked matters more
    return explain(error, used, setup.key_from(used), models)
