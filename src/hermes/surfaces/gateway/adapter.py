"""The base class of platform adapters, the data they exchange with the gateway, and a few helpers for them.

Plugins for chat platforms import these; published ones find the same classes as ``gateway.platforms.base``.
"""

from hermes.base.config.files import write_private_document
from hermes.base.http.threads import run_in_thread
from hermes.base.http_server.rate_limits import RateLimiter
from hermes.plugins.compat.messages import (
    HomeChannel,
    MessageEvent,
    MessageFile,
    MessageType,
    Platform,
    PlatformConfig,
    ProcessingOutcome,
    SendResult,
    SessionSource,
    build_session_key,
)
from hermes.plugins.compat.platforms import (
    BasePlatformAdapter,
    PlatformEntry,
    adapter_config,
    approval_text,
    entry_of,
    quoted,
    split_text,
)
from hermes.plugins.http import PluginHttp
from hermes.surfaces.gateway.store.outbox import OutgoingMessage
from hermes.tools.results import mark_untrusted

__all__ = [
    "BasePlatformAdapter",
    "HomeChannel",
    "MessageEvent",
    "MessageFile",
    "MessageType",
    "OutgoingMessage",
    "Platform",
    "PlatformConfig",
    "PlatformEntry",
    "PluginHttp",
    "ProcessingOutcome",
    "RateLimiter",
    "SendResult",
    "SessionSource",
    "adapter_config",
    "approval_text",
    "build_session_key",
    "entry_of",
    "mark_untrusted",
    "quoted",
    "run_in_thread",
    "split_text",
    "write_private_document",
]
