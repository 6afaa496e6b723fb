"""Explains a failed model request in one line: the problem, and what to do about it."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from hermes.base.errors import ConfigError, FailureReason, HermesError, ProviderError, did_you_mean
from hermes.base.http.errors import ProxyError, ProxyUnreachable, TimedOut
from hermes.base.http.proxy import proxy_for
from hermes.models.endpoint import Endpoint
from hermes.models.local.endpoint import is_local

# fmt: off
Kind = Literal[
    "key", "billing", "model", "url", "dns", "connection", "tls", "proxy", "timeout", "rate_limit", "overloaded",
    "setup", "server", "other",
]
# fmt: on

_PROXY_LOGIN = "put name and password into the proxy's URL in HTTP_PROXY or ALL_PROXY"

#: Where the sentences of this program turn from what was found to what to do about it.
_ADVICE = re.compile(r"; |: (?=run |move )")

_KINDS: dict[FailureReason, Kind] = {
    "auth": "key",
    "billing": "billing",
    "model_missing": "model",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "server_error": "server",
    "timeout": "timeout",
    "connection": "connection",
    "malformed": "url",
    "truncated": "connection",
}

#: Statuses of a server at which the address goes wrong: a redirect, and a place that takes no questions.
_WRONG_ADDRESS = (301, 302, 303, 307, 308, 405)


class ModelProblem(NamedTuple):
    """A problem and its fix."""

    kind: Kind
    detail: str
    #: What to do about it; empty when there is nothing to say.
    fix: str

    @property
    def line(self) -> str:
        """Both in one line."""
        return f"{self.detail}; {self.fix}" if self.fix else self.detail


def split_advice(error: Exception | str) -> tuple[str, str]:
    """The text of an error as the problem and the advice; no advice is empty."""
    detail, *advice = _ADVICE.split(str(error), maxsplit=1)
    return detail, advice[0] if advice else ""


def address_of(endpoint: Endpoint) -> str:
    """The address of an endpoint without credentials and query."""
    if is_local(endpoint):
        return "this machine"
    parts = urlsplit(endpoint.base_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def explain(
    error: HermesError, endpoint: Endpoint, key_from: str = "", models: Sequence[str] | None = None
) -> ModelProblem:
    """The problem behind an error. ``models`` are those that the server lists, if it does."""
    if not isinstance(error, ProviderError):
        return ModelProblem("setup" if isinstance(error, ConfigError) else "other", *split_advice(error))
    known = _network(error, endpoint) or _refusal(error, endpoint, key_from, models or ())
    if known is not None:
        return known
    detail, fix = split_advice(error)
    kind = "url" if error.status_code in _WRONG_ADDRESS else _KINDS.get(error.reason, "other")
    # A server that speaks another format answers too, only not in a way that can be read.
    suspects = f"{endpoint.address_setting}, api_mode" if error.reason == "malformed" else endpoint.address_setting
    return ModelProblem(kind, detail, fix or f"check {suspects} and what the server logs")


def _refusal(error: ProviderError, endpoint: Endpoint, key_from: str, models: Sequence[str]) -> ModelProblem | None:
    """The problem that the status of an answer tells."""
    address, status = address_of(endpoint), error.status_code
    # The server's own explanation of its status: a key may be valid and the country not.
    _, found, said = split_advice(error)[0].partition(f"(HTTP {status}): ")
    reason = f": {said}" if found else ""
    if error.reason == "auth" and status is not None:
        shown = f"the key ({key_from})" if key_from else "a request without a key"
        store = f"store one with 'hermes auth add {endpoint.provider}'"
        advice = "put a key that is valid there" if key_from else store
        return ModelProblem("key", f"{address} refused {shown}: HTTP {status}{reason}", advice)
    if status == 407:
        return ModelProblem("proxy", f"{address}: the proxy wants a login (HTTP 407)", _PROXY_LOGIN)
    if models and not is_among(endpoint.model, models) and error.reason in ("bad_request", "model_missing"):
        return not_listed(endpoint, models)
    if status == 404 and "not found" in str(error):
        advice = split_advice(error)[1] or f"check the name of the model and {endpoint.address_setting}"
        detail = f"{address}: nothing there answers for model {endpoint.model} (HTTP 404){reason}"
        return ModelProblem("model" if models else "url", detail, advice)
    return None


def not_listed(endpoint: Endpoint, models: Sequence[str]) -> ModelProblem:
    """The server has other models than the one that is asked for."""
    detail = f"{address_of(endpoint)} does not list the model {endpoint.model!r}"
    then = "The setting is model.default, or the model of the fallback"
    return ModelProblem("model", detail, did_you_mean(endpoint.model, models, then=then, most=5).removeprefix("; "))


def _network(error: ProviderError, endpoint: Endpoint) -> ModelProblem | None:
    parts = urlsplit(endpoint.base_url)
    proxy = proxy_for(parts.scheme, parts.hostname or "")
    at = urlsplit(proxy or "")
    via = f" (through the proxy {at.scheme}://{at.netloc.rpartition('@')[2]})" if proxy else ""
    for cause in _causes(error):
        known = _network_problem(cause, endpoint, via)
        if known is not None:
            fix = f"{known.fix}; check the proxy in HTTPS_PROXY, HTTP_PROXY and ALL_PROXY" if proxy else known.fix
            at_proxy = any(isinstance(one, ProxyError | ProxyUnreachable) for one in _causes(error))
            return ModelProblem("proxy" if at_proxy else known.kind, f"{address_of(endpoint)}: {known.detail}", fix)
    return None


def _network_problem(cause: BaseException, endpoint: Endpoint, via: str) -> ModelProblem | None:
    setting = endpoint.address_setting
    if isinstance(cause, socket.gaierror):
        advice = f"check {setting} and the network of this machine"
        return ModelProblem("dns", f"the name {urlsplit(endpoint.base_url).hostname} does not resolve{via}", advice)
    if isinstance(cause, ConnectionRefusedError):
        advice = f"start the server, or correct the port in {setting}"
        return ModelProblem("connection", f"the connection was refused{via}", advice)
    if isinstance(cause, ssl.SSLCertVerificationError):
        advice = "if the certificate is your own, name its authority in SSL_CERT_FILE; else check host and clock"
        return ModelProblem("tls", f"TLS: its certificate is not trusted: {cause.verify_message}{via}", advice)
    if isinstance(cause, ssl.SSLError):
        advice = f"if that port does not speak TLS, use http:// in {setting}"
        return ModelProblem("tls", f"TLS: the connection cannot be secured ({cause.reason or cause}){via}", advice)
    if isinstance(cause, TimedOut):
        detail = f"no answer within {cause.seconds:g} s ({cause.phase}){via}"
        return ModelProblem("timeout", detail, "check the network and whether it is busy")
    if isinstance(cause, ProxyError):
        return ModelProblem("proxy", f"the proxy refused: {cause}{via}", "check the proxy's address and login")
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The chain of causes of an error, the outermost first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def is_among(model: str, models: Sequence[str]) -> bool:
    """Whether a model is in a server's list: some put a folder before the name, or a tag after it."""
    return any(name in (model, f"{model}:latest") or name.endswith(f"/{model}") for name in models)
