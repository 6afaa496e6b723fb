"""The base class of platform adapters and the data they exchange with the gateway.

Plugins for chat platforms import these; published ones find the same classes as ``gateway.platforms.base``.
"""

from hermes.plugins.compat.messages import (
    HomeChannel,
    MessageEvent,
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
    split_text,
)

__all__ = [
    "BasePlatformAdapter",
    "HomeChannel",
    "MessageEvent",
    "MessageType",
    "Platform",
    "PlatformConfig",
    "PlatformEntry",
    "ProcessingOutcome",
    "SendResult",
    "SessionSource",
    "adapter_config",
    "approval_text",
    "build_session_key",
    "entry_of",
    "split_text",
]
