"""Records: the bodies of the journal's events, one frozen type for each kind of event and of step.

The kind of an event, and of a finished step the word before the colon of its key, say which type its body has: these
tags are columns, so that a body holds its fields alone. A field that has a default is left out where it says nothing.
To add a type, add a class and name it in ``STEPS`` or in ``EVENTS``; ``read_events`` gives it to every reader.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

Message = dict[str, Any]
CallStatus = Literal["ok", "error", "blocked", "cancelled", "timeout"]
#: The position of a message in its session: (turn, step, position).
SessionPlace = tuple[int, int, int]


class PluginDecision(Struct, frozen=True):
    """One thing that a plugin did to a step. It is part of the step's record."""

    plugin: str
    #: The hook, or the kind of middleware.
    site: str
    did: Literal["changed", "answered", "blocked", "asked", "added"]


def decisions_of(site: str, plugins: Iterable[str], did: Literal["changed", "answered"]) -> list[PluginDecision]:
    """What execution middleware did. Its callbacks are nested, so each of these plugins may have had a part in it."""
    return [PluginDecision(plugin, site, did) for plugin in plugins]


# -- turns ----------------------------------------------------------------------------------------------------------


class StartRecord(Struct, frozen=True):
    """The message that a turn was started with."""

    message: Message


class ResumptionRecord(Struct, frozen=True, omit_defaults=True):
    """A turn that was taken up again, after its process died or to be continued."""

    #: The keys of the calls that had started and have no result.
    in_flight: list[str]
    #: How much of the turn and its children was recorded by then.
    progress: int = -1
    #: Version, plugins and settings from now on.
    environment: dict[str, Any] | None = None


class EndRecord(Struct, frozen=True, omit_defaults=True):
    """The end of a turn."""

    state: str
    error: str | None
    #: The class of its failure.
    error_type: str = ""


class UndoingRecord(Struct, frozen=True):
    """A turn that the user undid."""


# -- steps ----------------------------------------------------------------------------------------------------------


class SetupRecord(Struct, frozen=True, omit_defaults=True):
    """The system prompt, tools and limits of a turn, fixed before its first request."""

    #: The budget of model steps: a resumed turn must come to its end at the same point.
    max_steps: int = 0
    #: What memory, the caller and plugins added to the message, for this turn only.
    context: str = ""
    #: The text that replaces each image for a model without vision, by the image's digest.
    stand_ins: dict[str, str] = {}
    decisions: list[PluginDecision] = []
    #: Whether an answer that reaches the output limit is continued: not when the user set the limit, nor where an
    #: answer in two pieces would be of no use.
    continues: bool = True
    #: The window that the server of the model had told by then, on which that choice of tools rests; 0 when it had not.
    window: int = 0
    system: str = ""
    tools: list[dict[str, Any]] = []
    #: What the prompt was made from, beside the settings; None in old records.
    facts: dict[str, str] | None = None
    #: Version, plugins, options and settings.
    environment: dict[str, Any] | None = None
    #: Tools that may be called, although the request does not have them: the model finds them by a search.
    deferred: list[str] = []

    def callable_tools(self) -> frozenset[str]:
        """The names of all tools that the model may call."""
        return frozenset([*(tool["function"]["name"] for tool in self.tools), *self.deferred])

    def parts(self, environment: dict[str, Any]) -> tuple[SetupRecord, dict[str, Any]]:
        """The fields of this turn alone, and those that many turns have in common.

        ``environment`` is what the turn runs with.
        """
        own = replace(self, system="", tools=[], facts=None, deferred=[])
        shared = {"system": self.system, "tools": self.tools, "facts": self.facts, "environment": environment}
        return own, {**shared, "deferred": self.deferred} if self.deferred else shared


class StoredCall(Struct, frozen=True):
    """A tool call that a reply asks for."""

    id: str
    name: str
    arguments: str


class StoredReply(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A reply of a model: its text and its calls, and of the rest what says something."""

    content: str
    reasoning: str = ""
    tool_calls: list[StoredCall]
    finish_reason: str = "stop"
    model: str = ""
    usage: dict[str, Any] | None = None
    response_id: str = ""
    #: What the provider wants back with the next request.
    provider_state: dict[str, Any] | None = msgspec.field(default=None, name="carry")


class ReplyRecord(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request to a model that was answered."""

    reply: StoredReply
    #: The number of the attempt in its turn; 0 in old records, which have its id instead.
    attempt: int = 0
    provider: str = ""
    api_request_id: str = ""
    #: The SHA-256 of the request's body as it was sent; empty when execution middleware answered instead.
    request_sha256: str = ""
    decisions: list[PluginDecision] = []
    #: The request without its messages, tools and instructions.
    parameters: dict[str, Any] = {}


class FailureRecord(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A request to a model that failed."""

    reason: str
    error: str | None
    #: What had arrived of the answer.
    partial: Any
    request_sha256: str = ""
    decisions: list[PluginDecision] = []
    parameters: dict[str, Any] = {}


class ClaimRecord(Struct, frozen=True):
    """A tool call that is about to start (write-ahead claim)."""

    id: str = ""
    name: str = ""
    args: dict[str, Any] = {}


class CallRecord(Struct, frozen=True, omit_defaults=True):
    """A tool call with its result."""

    id: str
    name: str
    args: dict[str, Any]
    result: str
    status: CallStatus
    error_type: str | None
    error_message: str | None
    duration_ms: int
    decisions: list[PluginDecision] = []
    #: Changes that were undone after the call, and may be asked about.
    undone_changes: list[Any] = []


class StoredFinding(Struct, frozen=True):
    """A reason of a plugin to have a call approved."""

    rule: str
    description: str


class WaitingCall(Struct, frozen=True, omit_defaults=True):
    """A call that plugins were told of and that has not ended: its turn waits for an answer.

    With it the call goes on, in this process or another, without being announced a second time.
    """

    args: dict[str, Any]
    original_args: dict[str, Any]
    #: What middleware and hooks changed.
    trace: list[dict[str, str]] = []
    decisions: list[PluginDecision] = []
    #: Why plugins want it approved.
    findings: list[StoredFinding] = []
    #: The approval whose answer plugins have not been told yet, and where it was asked.
    question: str = ""
    surface: str = ""


class DispatchClaim(ClaimRecord, frozen=True):
    """The claim of a tool call that a plugin made."""


class DispatchRecord(CallRecord, frozen=True):
    """A tool call that a plugin made, with its result."""


class ResultChange(Struct, frozen=True):
    """The plugin that changed a result for the model, after it was recorded."""

    decisions: list[PluginDecision]


class SteeringRecord(Struct, frozen=True):
    """Messages that were added to the running turn."""

    texts: list[str]


class CheckRecord(Struct, frozen=True, omit_defaults=True):
    """What plugins said about an answer that follows changed files; no message accepts it."""

    message: str | None
    decisions: list[PluginDecision] = []


class ContinuationRecord(Struct, frozen=True):
    """An answer that was cut off, and whose rest was asked for."""

    finish_reason: str


class BudgetStop(Struct, frozen=True):
    """A budget that ended the turn."""

    why: str


class WindowRecord(Struct, frozen=True):
    """The context window that the server of the model told."""

    tokens: int


class Compaction(Struct, frozen=True):
    """A shorter conversation: ``messages`` replace every message before the place ``covers``."""

    messages: list[Message]
    covers: SessionPlace
    #: ``window`` (it was getting full), ``refused`` (by the provider, as too long) or ``asked`` (by the user).
    reason: str
    tokens_before: int
    tokens_after: int


class FinalRecord(Struct, frozen=True, kw_only=True):
    """The answer of the turn."""

    text: str
    finish_reason: str = "stop"
    decisions: list[PluginDecision] | msgspec.UnsetType = msgspec.UNSET


# -- bodies without a type of their own -----------------------------------------------------------------------------


class OtherRecord(Struct, frozen=True):
    """The body of an event of a kind that this version does not know."""

    body: Any


class RedactedRecord(Struct, frozen=True):
    """A body that was removed on purpose."""


class UnreadableRecord(Struct, frozen=True):
    """A body that is damaged, missing or not what its kind has."""

    reason: str
    #: It can be read, and does not have the parts that its kind has.
    is_incomplete: bool = False


#: The types of finished steps, by the word before the colon of the key.
STEPS: dict[str, type[Struct]] = {
    "setup": SetupRecord,
    "model": ReplyRecord,
    "tool": CallRecord,
    "steer": SteeringRecord,
    "verify": CheckRecord,
    "continue": ContinuationRecord,
    "budget": BudgetStop,
    "window": WindowRecord,
    "compact": Compaction,
    "final": FinalRecord,
}
#: The types of all other events, by their kind.
EVENTS: dict[str, type[Struct]] = {
    "turn_started": StartRecord,
    "turn_resumed": ResumptionRecord,
    "turn_ended": EndRecord,
    "turn_undone": UndoingRecord,
    "step_claimed": ClaimRecord,
    "call_waits": WaitingCall,
    "attempt_failed": FailureRecord,
    "result_changed": ResultChange,
    "dispatch_claimed": DispatchClaim,
    "dispatch_done": DispatchRecord,
    "compacted": Compaction,
}
STEP_DONE = "step_done"

#: Any of them, or one of those without a type of their own.
Record = Struct

_decoders: dict[type[Struct], msgspec.json.Decoder[Any]] = {}
_inspecting = threading.Lock()
_STEP_KEY = re.compile(r"([a-z_]+)(?::(\d+)(?:\.(\d+))?)?")


class StepPlace(NamedTuple):
    """A key in its parts: ``tool:2.1`` is a call of reply 2. What a key does not have is 0."""

    name: str
    step: int = 0
    call: int = 0


def step_place(key: str) -> StepPlace:
    """The parts of a key. Raises ``ValueError`` for one that no step has."""
    found = _STEP_KEY.fullmatch(key)
    if found is None:
        raise ValueError(f"no step has the key {key!r}")
    name, step, call = found.groups()
    return StepPlace(name, int(step or 0), int(call or 0))


def tag_of(kind: type[Struct]) -> tuple[str, str]:
    """The kind and the key of a record that a turn has under one key, such as its start or its answer."""
    tags = [*((event, "", known) for event, known in EVENTS.items())]
    tags += [(STEP_DONE, step, known) for step, known in STEPS.items()]
    return next((event, key) for event, key, known in tags if known is kind)


def record_type(kind: str, key: str) -> type[Struct] | None:
    """The type of the body of an event; None for one that this version does not know."""
    return STEPS.get(key.partition(":")[0]) if kind == STEP_DONE else EVENTS.get(kind)


def decode_record(kind: str, key: str, text: str) -> Any:
    """The record in a JSON text. Raises ``msgspec.DecodeError`` when it is not one."""
    found = record_type(kind, key)
    return OtherRecord(msgspec.json.decode(text)) if found is None else _decoder(found).decode(text)


def convert_record(kind: str, key: str, value: Any) -> Any:
    """The record in plain data. Raises ``msgspec.ValidationError`` when it is not one."""
    found = record_type(kind, key)
    if found is None:
        return OtherRecord(value)
    _decoder(found)
    return msgspec.convert(value, found)


def _decoder(kind: type[Struct]) -> msgspec.json.Decoder[Any]:
    """The decoder of a type, which msgspec inspects for it: one thread at a time, see ``prepare_struct``."""
    found = _decoders.get(kind)
    if found is None:
        with _inspecting:
            found = _decoders.setdefault(kind, msgspec.json.Decoder(kind))
    return found
