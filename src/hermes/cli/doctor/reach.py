"""Asks a model's server one small question over the connections a conversation uses, and says what went wrong."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

from hermes.cli.doctor.finding import Finding, broken, ok, told, warning
from hermes.cli.doctor.model_list import ModelList, is_among, nearest_model
from hermes.errors import FailureReason, HermesError, ProviderError
from hermes.providers.chat_completions import ChatCompletions
from hermes.providers.driver import Driver
from hermes.providers.endpoint import Endpoint, Timeouts
from hermes.providers.exchange import TimedOut
from hermes.providers.proxies import proxy_for
from hermes.scope import Interrupt

PATIENCE = Timeouts(connect=4.0, first_byte=7.0, between_chunks=3.0, total=10.0)

#: The server is there and the key is good; only this moment is a bad one.
_PASSING: frozenset[FailureReason] = frozenset({"rate_limit", "overloaded"})
#: What a server without a list of models answers.
_NO_LIST = (404, 405, 501)


def probe(endpoint: Endpoint, role: str, key_from: str) -> Finding:
    """Whether the model answers, and if not, the one thing that is in the way."""
    driver = Driver()
    endpoint = replace(endpoint, timeouts=PATIENCE)
    started = time.monotonic()
    models: list[str] = []
    try:
        models = _list(driver, endpoint)
        if is_among(endpoint.model, models):
            return ok(role, f"{place(endpoint)} answers ({_ms(started)}) and has {endpoint.model}")
        # Not on the list, or no list: some servers take other names too, so the model itself has the last word.
        _ask(driver, endpoint)
        return ok(role, f"{place(endpoint)} answers ({_ms(started)}) as {endpoint.model}")
    except ProviderError as error:
        if models and error.reason not in ("auth", "billing", *_PASSING):
            return _finding(role, *_not_listed(endpoint, models))
        detail, fix = explain(error, endpoint, key_from)
        return warning(role, detail, fix) if error.reason in _PASSING else _finding(role, detail, fix)
    except HermesError as error:
        return _finding(role, *told(error))
    finally:
        driver.close()


def place(endpoint: Endpoint) -> str:
    """The address without what may be secret in it."""
    parts = urlsplit(endpoint.base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def explain(error: ProviderError, endpoint: Endpoint, key_from: str) -> tuple[str, str]:
    """What is wrong and what to do about it."""
    parts = urlsplit(endpoint.base_url)
    proxy = proxy_for(parts.scheme, parts.hostname or "")
    via = f" (through the proxy {_proxy_place(proxy)})" if proxy else ""
    for cause in _causes(error):
        known = _network_problem(cause, parts.hostname or "", via)
        if known:
            detail, fix = known
            advice = f"{fix}; check the proxy in HTTPS_PROXY, HTTP_PROXY and ALL_PROXY" if proxy else fix
            return f"{place(endpoint)}: {detail}", advice
    if error.reason == "auth":
        shown = f"the key ({key_from})" if key_from else "a request without a key"
        return f"{place(endpoint)} refused {shown}: HTTP {error.status_code}", "put a key that is valid there"
    if error.status_code == 404 and "not found" in str(error):
        advice = "check model.default and model.base_url; the address of most servers ends in /v1"
        return f"{place(endpoint)}: nothing there answers for model {endpoint.model} (HTTP 404)", advice
    detail, fix = told(error)
    return detail, fix or "check model.base_url and what the server logs"


def _network_problem(cause: BaseException, host: str, via: str) -> tuple[str, str] | None:
    if isinstance(cause, socket.gaierror):
        return f"the name {host} does not resolve{via}", "check model.base_url and the network of this machine"
    if isinstance(cause, ConnectionRefusedError):
        return f"the connection was refused{via}", "start the server, or correct the port in model.base_url"
    if isinstance(cause, ssl.SSLCertVerificationError):
        advice = "if the certificate is your own, name its authority in SSL_CERT_FILE; else check host and clock"
        return f"TLS: its certificate is not trusted: {cause.verify_message}{via}", advice
    if isinstance(cause, ssl.SSLError):
        advice = "if that port does not speak TLS, use http:// in model.base_url"
        return f"TLS: the connection cannot be secured ({cause.reason or cause}){via}", advice
    if isinstance(cause, TimedOut):
        return f"no answer within {cause.seconds:g} s ({cause.phase}){via}", "check the network and whether it is busy"
    if type(cause).__name__ == "ProxyError":
        return f"the proxy refused: {cause}{via}", "check the proxy's address and login"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What lies behind an error, the outermost first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _list(driver: Driver, endpoint: Endpoint) -> list[str]:
    """The models the server has; none when it does not tell."""
    try:
        return driver.send(endpoint, ModelList(), {}, interrupt=Interrupt()).models
    except ProviderError as error:
        if error.status_code in _NO_LIST or error.reason == "malformed":
            return []
        raise


def _ask(driver: Driver, endpoint: Endpoint) -> None:
    wire = ChatCompletions()
    kwargs = wire.kwargs(endpoint, [{"role": "user", "content": "Hi"}], stream=False, max_tokens=1)
    driver.send(endpoint, wire, kwargs, interrupt=Interrupt())


def _not_listed(endpoint: Endpoint, models: list[str]) -> tuple[str, str]:
    near = nearest_model(endpoint.model, models)
    hint = f"did you mean {near}?" if near else f"it has {', '.join(models[:5])}{', …' if len(models) > 5 else ''}"
    detail = f"{place(endpoint)} does not list the model {endpoint.model} (it lists {len(models)})"
    return detail, f"{hint} The setting is model.default, or the model of the fallback"


def _finding(role: str, detail: str, fix: str) -> Finding:
    """A fallback that fails leaves the model that is asked first in working order."""
    return broken(role, detail, fix) if role == "model" else warning(role, detail, fix)


def _proxy_place(proxy: str) -> str:
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _ms(started: float) -> str:
    return f"{(time.monotonic() - started) * 1000:.0f} ms"
