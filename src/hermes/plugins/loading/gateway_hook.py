"""Gateway hooks: a folder with ``HOOK.yaml`` and ``handler.py``, whose ``handle`` is told what happens in chats."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from hermes.base.errors import PluginError, did_you_mean
from hermes.contract.gateway_events import ANY_COMMAND, COMMAND, GATEWAY_EVENTS, STARTUP, gateway_event
from hermes.hooks.callback import describe
from hermes.hooks.prepared import PreparedCallback
from hermes.plugins.compat.chats.session_context import chat_of

if TYPE_CHECKING:
    from hermes.plugins.loading.manifest import PluginManifest
    from hermes.plugins.services import PluginHost

log = logging.getLogger("hermes.plugins")

#: The most characters of a message and of an answer that a handler is told.
_MOST_CHARS = 500


class GatewayCall(NamedTuple):
    """What one event of the runtime is for handlers."""

    event: str
    session_id: str
    #: What is known beside the chat.
    told: dict[str, Any]
    #: The session that the chat had before.
    old_session_id: str = ""


class GatewayHook:
    """The handler of one folder."""

    def __init__(self, handle: Callable[..., Any], manifest: PluginManifest, host: PluginHost) -> None:
        self.handle = handle
        self._key = manifest.key
        self._events = frozenset(manifest.events)
        self._host = host
        #: The sender and the message of the turns that run, by session.
        self._turns: dict[str, dict[str, str]] = {}

    def register(self, context: Any) -> None:
        """Subscribe to the hooks that the events come from."""
        hooks: dict[str, None] = {}
        for name in sorted(self._events):
            event = gateway_event(name)
            if event is None:
                context.note_problem(f"there is no gateway event {name!r}{did_you_mean(name, GATEWAY_EVENTS)}")
            else:
                hooks |= dict.fromkeys(event.hooks)
        if "post_llm_call" in hooks:
            hooks["pre_llm_call"] = None  # it has the message
        for hook in hooks:
            context.register_hook(hook, HandlerCall(self, _READERS[hook]), background=True)
        if STARTUP in self._events:
            self._host.plugins.gateway_starts.append(self.started)

    def started(self, platforms: Sequence[str]) -> None:
        """Tell the handler that the gateway runs these platforms."""
        given = {"event_type": STARTUP, "context": {"platforms": list(platforms)}}
        self._host.hooks.queue(self._key).put(lambda: self._tell(given))

    def _tell(self, given: dict[str, Any]) -> None:
        runner = self._host.hooks.runner
        seconds = runner.limits.hook_seconds(self._key)
        _, error = runner.call(self.call, given, self._key, seconds, STARTUP)
        if error is not None:
            log.warning("plugin %r: %s failed: %s", self._key, STARTUP, describe(error))

    def call(self, event_type: str, context: dict[str, Any]) -> Any:
        """Call the handler, by the positions of its arguments: their names are its own."""
        return self.handle(event_type, context)

    def context_of(self, call: GatewayCall) -> dict[str, Any] | None:
        """What the handler is told; None when the event is not for it or in no chat."""
        turn = self._turn_of(call)
        is_wanted = call.event in self._events or (call.event.startswith(COMMAND) and ANY_COMMAND in self._events)
        event = gateway_event(call.event) if is_wanted else None
        row = None if event is None else chat_of(self._host, call.session_id)
        if row is None and event is not None and call.old_session_id:
            row = chat_of(self._host, call.old_session_id)
        if event is None or row is None:
            return None
        source = row.read_source()
        known: dict[str, Any] = {name: str(getattr(source, name) or "") for name in _OF_CHAT}
        known |= {"platform": row.platform, "session_id": call.session_id, "session_key": row.key}
        known |= turn | call.told
        return {name: known[name] for name in event.context}

    def _turn_of(self, call: GatewayCall) -> dict[str, str]:
        """The sender and the message of the turn that runs in the session: the end of a turn does not have them."""
        if call.event == "agent:start" and "agent:end" in self._events:
            self._turns[call.session_id] = {name: call.told[name] for name in ("user_id", "message")}
        if call.event == "agent:end":
            return {"message": "", **self._turns.pop(call.session_id, {})}
        return self._turns.get(call.session_id, {})


class HandlerCall(PreparedCallback):
    """The handler at one hook of the contract."""

    def __init__(self, hook: GatewayHook, reader: Callable[..., GatewayCall | None]) -> None:
        super().__init__(reader)
        self._hook = hook
        self._reader = reader

    def prepare(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """The event and its context, as they are now: by the time of the call the chat may have another session."""
        call = self._reader(**given)
        context = None if call is None else self._hook.context_of(call)
        return None if call is None or context is None else {"event_type": call.event, "context": context}

    def __call__(self, event_type: str, context: dict[str, Any]) -> Any:
        """Call the handler."""
        return self._hook.call(event_type, context)


def gateway_hook_register(module: Any, manifest: PluginManifest, host: PluginHost) -> Callable[[Any], None]:
    """What registers the handler of a gateway hook."""
    handle = getattr(module, "handle", None)
    if not callable(handle):
        raise PluginError(f"{manifest.code} has no function handle(event_type, context)")
    return GatewayHook(handle, manifest, host).register


_OF_CHAT = ("user_id", "chat_id", "thread_id", "chat_type")


def _session_started(session_id: str) -> GatewayCall:
    return GatewayCall("session:start", session_id, {})


def _session_ended(session_id: str, reason: str) -> GatewayCall | None:
    # The session of a chat continues when the gateway runs again.
    return None if reason == "shutdown" else GatewayCall("session:end", session_id, {})


def _session_reset(session_id: str, old_session_id: str) -> GatewayCall:
    return GatewayCall("session:reset", session_id, {}, old_session_id)


def _turn_started(session_id: str, user_message: Any, sender_id: str) -> GatewayCall:
    told = {"message": _text(user_message), "user_id": sender_id}
    return GatewayCall("agent:start", session_id, told)


def _answered(session_id: str, api_call_count: int, response: dict[str, Any]) -> GatewayCall:
    message: Any = response["assistant_message"]
    names = [str(call["name"]) for call in cast("list[Any]", message["tool_calls"])]
    return GatewayCall("agent:step", session_id, {"iteration": api_call_count, "tool_names": names})


def _turn_answered(session_id: str, assistant_response: str, model: str) -> GatewayCall:
    return GatewayCall("agent:end", session_id, {"response": assistant_response[:_MOST_CHARS], "model": model})


def _turn_ended(session_id: str, completed: bool, model: str) -> GatewayCall | None:
    return None if completed else GatewayCall("agent:end", session_id, {"response": "", "model": model})


def _command(session_id: str, surface: str, command: str, args_raw: str) -> GatewayCall | None:
    told = {"command": command, "args": args_raw}
    return GatewayCall(f"{COMMAND}{command}", session_id, told) if surface == "gateway" else None


def _text(message: Any) -> str:
    if isinstance(message, str):
        return message[:_MOST_CHARS]
    parts = cast("list[dict[str, Any]]", message) if isinstance(message, list) else []
    return "\n".join(str(part["text"]) for part in parts if part.get("type") == "text")[:_MOST_CHARS]


#: By hook of the contract: what it is for handlers. The parameters name the fields.
_READERS: dict[str, Callable[..., GatewayCall | None]] = {
    "on_session_start": _session_started,
    "on_session_finalize": _session_ended,
    "on_session_reset": _session_reset,
    "pre_llm_call": _turn_started,
    "post_api_request": _answered,
    "post_llm_call": _turn_answered,
    "on_session_end": _turn_ended,
    "pre_command": _command,
}
