"""Asks a model's server one small question over the connections a conversation uses, and says what went wrong."""

from __future__ import annotations

import time
from dataclasses import replace

from hermes.cli.doctor.finding import Finding, broken, ok, warning
from hermes.cli.model.names import is_among
from hermes.cli.model.problems import explain, not_listed, place
from hermes.cli.model.server_list import list_models
from hermes.errors import FailureReason, HermesError, ProviderError
from hermes.providers.driver import Driver
from hermes.providers.endpoint import Endpoint, Timeouts
from hermes.providers.wires import wire_for
from hermes.scope import Interrupt

PATIENCE = Timeouts(connect=4.0, first_byte=7.0, between_chunks=3.0, total=10.0)

#: The server is there and the key is good; only this moment is a bad one.
_PASSING: frozenset[FailureReason] = frozenset({"rate_limit", "overloaded"})


def probe(endpoint: Endpoint, role: str, key_from: str) -> Finding:
    """Whether the model answers, and if not, the one thing that is in the way."""
    driver = Driver()
    endpoint = replace(endpoint, timeouts=PATIENCE)
    started = time.monotonic()
    models: list[str] = []
    try:
        models = list_models(driver, endpoint) or []
        if is_among(endpoint.model, models):
            return ok(role, f"{place(endpoint)} answers ({_ms(started)}) and has {endpoint.model}")
        # Not on the list, or no list: some servers take other names too, so the model itself has the last word.
        _ask(driver, endpoint)
        return ok(role, f"{place(endpoint)} answers ({_ms(started)}) as {endpoint.model}")
    except HermesError as error:
        problem = explain(error, endpoint, key_from)
        if isinstance(error, ProviderError) and error.reason in _PASSING:
            return warning(role, problem.detail, problem.fix)
        if models and isinstance(error, ProviderError) and error.reason not in ("auth", "billing"):
            problem = not_listed(endpoint, models)
        # A fallback that fails leaves the model that is asked first in working order.
        report = broken if role == "model" else warning
        return report(role, problem.detail, problem.fix)
    finally:
        driver.close()


def _ask(driver: Driver, endpoint: Endpoint) -> None:
    wire = wire_for(endpoint)
    kwargs = wire.kwargs(endpoint, [{"role": "user", "content": "Hi"}], stream=False, max_tokens=1)
    driver.send(endpoint, wire, kwargs, interrupt=Interrupt())


def _ms(started: float) -> str:
    return f"{(time.monotonic() - started) * 1000:.0f} ms"
