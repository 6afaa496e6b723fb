"""Asks a model's server one small question over the connections a conversation uses, and says what went wrong."""

from __future__ import annotations

import time
from dataclasses import replace

from hermes.cli.doctor.finding import Finding, broken, ok, warning
from hermes.cli.model.desk import Desk
from hermes.cli.model.names import is_among
from hermes.cli.model.problems import explain, not_listed, place, told
from hermes.cli.model.server_list import list_models
from hermes.errors import FailureReason, HermesError, ProviderError
from hermes.models.endpoint import Endpoint, Timeouts
from hermes.models.http.driver import Driver
from hermes.models.wires.choice import wire_for
from hermes.models.wires.wire import ModelRequest
from hermes.scope import Interrupt

PATIENCE = Timeouts(connect=4.0, first_byte=7.0, between_chunks=3.0, total=10.0)

#: Told of a key that was lent: an examination leaves no mark on it.
_LOOKED_AT = ProviderError("the request was given up", reason="connection")
#: The server is there and the key is good; only this moment is a bad one.
_PASSING: frozenset[FailureReason] = frozenset({"rate_limit", "overloaded"})


def probe(desk: Desk, endpoint: Endpoint, role: str) -> Finding:
    """Whether the model answers, and if not, the one thing that is in the way."""
    # A fallback that fails leaves the model that is asked first in working order.
    report = broken if role == "model" else warning
    endpoint = replace(endpoint, timeouts=PATIENCE)
    try:
        lent = desk.keys.take(endpoint)
    except HermesError as error:
        return report(role, *told(error))
    if lent is None:
        return warning(role, *told(desk.keys.explain(endpoint)))
    driver = Driver()
    started = time.monotonic()
    models: list[str] = []
    try:
        models = list_models(driver, lent) or []
        if is_among(lent.model, models):
            return ok(role, f"{place(lent)} answers ({_ms(started)}) and has {lent.model}")
        # Not on the list, or no list: some servers take other names too, so the model itself has the last word.
        _ask(driver, lent)
        return ok(role, f"{place(lent)} answers ({_ms(started)}) as {lent.model}")
    except HermesError as error:
        problem = explain(error, lent, desk.key_from(lent))
        if isinstance(error, ProviderError) and error.reason in _PASSING:
            return warning(role, problem.detail, problem.fix)
        if models and isinstance(error, ProviderError) and error.reason not in ("auth", "billing"):
            problem = not_listed(lent, models)
        return report(role, problem.detail, problem.fix)
    finally:
        driver.close()
        desk.keys.report(lent, _LOOKED_AT)


def _ask(driver: Driver, endpoint: Endpoint) -> None:
    wire = wire_for(endpoint)
    kwargs = wire.kwargs(endpoint, ModelRequest([{"role": "user", "content": "Hi"}], stream=False, max_tokens=1))
    driver.send(endpoint, wire, kwargs, interrupt=Interrupt())


def _ms(started: float) -> str:
    return f"{(time.monotonic() - started) * 1000:.0f} ms"
