"""The public test kit: scripted models and users, receivers, recorders and a plugin harness, all on real sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.testing.harness import PluginHarness
    from hermes.testing.hosts.conversation import HostConversation
    from hermes.testing.llm import FakeLlm, LlmCall, RecordingLlm
    from hermes.testing.otlp import OtlpReceiver
    from hermes.testing.proxies import ProxyServer, connect_proxy, socks_proxy
    from hermes.testing.recorder import EventRecorder, RecordedEvent
    from hermes.testing.responder import ScriptedResponder
    from hermes.testing.scripted.faults import FAULTS, Fault, FaultServer, cuts, recorded
    from hermes.testing.scripted.replies import (
        ScriptedCall,
        ScriptedReply,
        dropped,
        failure,
        hanging,
        raw,
        reasoning,
        text,
        tool_call,
        tool_calls,
    )
    from hermes.testing.scripted.script import RecordedRequest, by_step
    from hermes.testing.scripted.server import ScriptedProvider
    from hermes.testing.webhook import WebhookReceiver

__all__ = [
    "FAULTS",
    "EventRecorder",
    "FakeLlm",
    "Fault",
    "FaultServer",
    "HostConversation",
    "LlmCall",
    "OtlpReceiver",
    "PluginHarness",
    "ProxyServer",
    "RecordedEvent",
    "RecordedRequest",
    "RecordingLlm",
    "ScriptedCall",
    "ScriptedProvider",
    "ScriptedReply",
    "ScriptedResponder",
    "WebhookReceiver",
    "by_step",
    "connect_proxy",
    "cuts",
    "dropped",
    "failure",
    "hanging",
    "raw",
    "reasoning",
    "recorded",
    "socks_proxy",
    "text",
    "tool_call",
    "tool_calls",
]

#: Module -> its names; the others are in ``scripted.replies``. Imported on first use: a plugin test that needs the
#: recorder alone pays for no server.
_HOMES = {
    "harness": ("PluginHarness",),
    "hosts.conversation": ("HostConversation",),
    "llm": ("FakeLlm", "LlmCall", "RecordingLlm"),
    "otlp": ("OtlpReceiver",),
    "proxies": ("ProxyServer", "connect_proxy", "socks_proxy"),
    "recorder": ("EventRecorder", "RecordedEvent"),
    "responder": ("ScriptedResponder",),
    "scripted.faults": ("FAULTS", "Fault", "FaultServer", "cuts", "recorded"),
    "scripted.script": ("RecordedRequest", "by_step"),
    "scripted.server": ("ScriptedProvider",),
    "webhook": ("WebhookReceiver",),
}


#: Former names, which still work.
_RENAMED = {"Call": "ScriptedCall", "Event": "RecordedEvent"}


def __getattr__(name: str) -> Any:
    name = _RENAMED.get(name, name)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = next((module for module, names in _HOMES.items() if name in names), "scripted.replies")
    return getattr(import_module(f"hermes.testing.{home}"), name)
