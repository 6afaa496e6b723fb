"""Fields of hook and middleware payloads, and those that many of them share."""

from __future__ import annotations

from typing import Literal, NamedTuple

from hermes.contract.values import PLATFORMS, one_of

#: ``plain``: made by the runtime (ids, numbers, names), nothing to redact. ``sanitised``: bounded, redacted and
#: JSON-safe, ready for export. ``raw``: what the user, the model or a tool really said; redact before export.
Safety = Literal["plain", "sanitised", "raw"]


class Field(NamedTuple):
    """One keyword argument that a callback receives."""

    name: str
    type: str
    meaning: str
    safety: Safety = "plain"
    #: False when the field is only present in some situations; ``meaning`` then says which.
    always: bool = True

    @property
    def container(self) -> bool:
        """Whether the value can be changed in place, so that a callback must be given a copy."""
        return any(part.startswith(("dict", "list", "Record")) for part in self.type.split(" | "))


Fields = tuple[Field, ...]

SCHEMA_VERSION = Field("telemetry_schema_version", "str", "Version of the observer contract.")

SESSION_ID = Field("session_id", "str", "The conversation.")
TASK_ID = Field("task_id", "str", "The task: one run of the agent, its own for each delegated child.")
TURN_ID = Field("turn_id", "str", "The user turn that model attempts and tool calls belong to.")
API_REQUEST_ID = Field("api_request_id", "str", "One provider attempt. Opaque; every retry has its own.")
TOOL_CALL_ID = Field("tool_call_id", "str", "The tool call, as the provider named it.")

PLATFORM = Field(
    "platform",
    "str",
    f"The surface the conversation runs on: {one_of(tuple(PLATFORMS))}; of a gateway the chat platform, such as "
    "`telegram`, or `webhook`.",
)
MODEL = Field("model", "str", "The model in use.")
PROVIDER = Field("provider", "str", "The provider in use.")
BASE_URL = Field("base_url", "str", "The endpoint's address, without credentials.", "sanitised")
API_MODE = Field("api_mode", "str", "The wire: `chat_completions`, `anthropic_messages` or `codex_responses`.")
API_CALL_COUNT = Field("api_call_count", "int", "Attempts made so far in this turn, this one included.")

USER_MESSAGE = Field("user_message", "str | list", "What the user sent.", "raw")
HISTORY = Field("conversation_history", "list[dict]", "The messages of the conversation.", "raw")
TOOL_NAME = Field("tool_name", "str", "The tool.")
ARGS = Field("args", "dict", "The arguments the tool runs with.", "raw")
TRACE = Field("middleware_trace", "list[dict]", "Which plugin rewrote this call, in order.", "raw")

#: Who and where, for one request to a provider.
API_REQUEST: Fields = (
    SESSION_ID,
    TASK_ID,
    TURN_ID,
    API_REQUEST_ID,
    PLATFORM,
    MODEL,
    PROVIDER,
    BASE_URL,
    API_MODE,
)
#: The same for everything that happens inside one attempt of the conversation.
ATTEMPT: Fields = (*API_REQUEST, API_CALL_COUNT)

#: Who and what, for everything that happens to one tool call.
TOOL_CALL: Fields = (TOOL_NAME, ARGS, SESSION_ID, TASK_ID, TURN_ID, API_REQUEST_ID, TOOL_CALL_ID)
