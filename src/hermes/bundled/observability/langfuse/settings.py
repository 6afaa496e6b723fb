"""Settings of the Langfuse exporter, from the environment and the configuration."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from hermes.trace.otel.variables import ExporterVariables, public_address

log = logging.getLogger(__name__)

DEFAULT_URL = "https://cloud.langfuse.com"
DEFAULT_FLUSH_SECONDS = 3.0
DEFAULT_TIMEOUT = 5.0

#: What the server takes as the name of an environment; others it would quietly leave out.
_ENVIRONMENT = re.compile(r"(?!langfuse)[a-z0-9_-]{1,40}")
_LONGEST_TAG = 200


@dataclass(frozen=True, slots=True)
class LangfuseSettings:
    """Where to send to, and how much."""

    public_key: str = ""
    secret_key: str = field(default="", repr=False)
    base_url: str = DEFAULT_URL
    environment: str = ""
    #: The share of traces that are sent, from 0 to 1.
    sample_rate: float = 1.0
    tags: tuple[str, ...] = ()
    capture_content: bool = True
    #: Only what is part of the content can be captured.
    capture_reasoning: bool = True
    #: How long the end of a session may wait for the server.
    flush_seconds: float = DEFAULT_FLUSH_SECONDS
    #: How long one request to the server may take.
    timeout: float = DEFAULT_TIMEOUT
    is_disabled: bool = False

    @property
    def problem(self) -> str:
        """Why nothing can be sent, empty when it can."""
        keys = {"LANGFUSE_PUBLIC_KEY": self.public_key, "LANGFUSE_SECRET_KEY": self.secret_key}
        missing = [name for name, key in keys.items() if not key]
        if missing:
            noun = "is not set; set it" if len(missing) == 1 else "are not set; set them"
            return f"{' and '.join(missing)} {noun} in the environment or in .env"
        if not self.target:
            return "LANGFUSE_BASE_URL is not an address; one like https://cloud.langfuse.com is expected"
        return ""

    @property
    def target(self) -> str:
        """The server for people to read, without credentials; empty when the address cannot be read."""
        return public_address(self.base_url)


def read_settings(env: Mapping[str, str], entries: Mapping[str, Any]) -> LangfuseSettings:
    """Settings from ``HERMES_LANGFUSE_*``, then ``LANGFUSE_*``, then ``plugins.entries`` of the configuration."""
    source = ExporterVariables(env, ("HERMES_LANGFUSE_", "LANGFUSE_"), entries)
    is_sdk_disabled = env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return LangfuseSettings(
        public_key=source.text("public_key"),
        secret_key=source.text("secret_key"),
        base_url=(source.text("base_url", "host") or DEFAULT_URL).rstrip("/"),
        environment=_environment(source.text("environment", "tracing_environment")),
        sample_rate=source.number("sample_rate", 1.0, most=1.0),
        tags=_tags(source.value("tags")),
        capture_content=source.switch("capture_content", default=True),
        capture_reasoning=source.switch("capture_reasoning", default=True),
        flush_seconds=source.number("flush_seconds", DEFAULT_FLUSH_SECONDS),
        timeout=source.number("timeout", DEFAULT_TIMEOUT) or DEFAULT_TIMEOUT,
        is_disabled=not source.switch("tracing_enabled", default=True) or is_sdk_disabled,
    )


def _environment(name: str) -> str:
    if not name or _ENVIRONMENT.fullmatch(name):
        return name
    log.warning(
        "the Langfuse environment is %r; allowed: up to 40 of a-z, 0-9, - and _, not beginning with langfuse. "
        "Leaving it out",
        name,
    )
    return ""


def _tags(value: Any) -> tuple[str, ...]:
    tags = value.split(",") if isinstance(value, str) else cast("list[Any]", value) if isinstance(value, list) else []
    return tuple(tag for one in tags if (tag := str(one).strip()[:_LONGEST_TAG]))
