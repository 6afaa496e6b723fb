"""The OTLP endpoint of Langfuse: its address and headers, and what its refusals mean."""

from __future__ import annotations

import base64
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExporter
from requests.auth import AuthBase

from hermes.base.sanitize import redact_text

from .settings import LangfuseSettings

_PATH = "/api/public/otel/v1/traces"
#: The SDK whose attributes the spans have: the server reads metadata by it.
SDK_VERSION = "5.0.4"
#: What a request may carry besides the headers of Langfuse.
_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "host"}
    | {"authorization", "user-agent"}
)


def ingestion(settings: LangfuseSettings) -> SpanExporter:
    """An OTLP exporter with the keys of a project, as Langfuse's own SDK makes it."""
    headers = {
        "x-langfuse-sdk-name": "python",
        "x-langfuse-sdk-version": SDK_VERSION,
        "x-langfuse-public-key": settings.public_key,
        "x-langfuse-ingestion-version": "4",
    }
    session = requests.Session()
    session.auth = _Keys(settings.public_key, settings.secret_key)
    session.hooks["response"].append(_refuse_redirection)
    return OTLPSpanExporter(
        endpoint=settings.base_url + _PATH,
        headers=headers,
        timeout=settings.timeout,
        compression=Compression.Gzip,
        session=session,
    )


class _Keys(AuthBase):
    """Signs requests, and takes off the headers that ``OTEL_EXPORTER_OTLP_HEADERS`` has for another collector."""

    def __init__(self, public_key: str, secret_key: str) -> None:
        self._authorization = "Basic " + base64.b64encode(f"{public_key}:{secret_key}".encode()).decode()

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        r.headers["authorization"] = self._authorization
        for name in list(r.headers):
            if name.lower() not in _HEADERS and not name.lower().startswith("x-langfuse-"):
                del r.headers[name]
        return r


def _refuse_redirection(response: requests.Response, *_: Any, **__: Any) -> None:
    """The OpenTelemetry exporter would take a redirection for success."""
    if response.is_redirect:
        place = redact_text(response.headers["location"])
        response.close()
        raise requests.RequestException(f"the server redirects to {place}; set LANGFUSE_BASE_URL to where it really is")


def explain(remark: str) -> str:
    """A failure in words, by what the OTLP exporter logged of it."""
    if "code: 401" in remark or "code: 403" in remark:
        check = "check LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and LANGFUSE_BASE_URL"
        return f"the keys are not accepted; {check} ({remark})"
    return remark or "no reason was given"
