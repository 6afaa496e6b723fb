"""Shapes of recorded bodies: the parts that a step or an event cannot be without to be run again."""

from __future__ import annotations

from typing import Any

import msgspec


class StoredMessage(msgspec.Struct):
    """The message of a user."""

    content: str | list[dict[str, Any]]


class StoredStart(msgspec.Struct):
    """The start of a turn."""

    message: StoredMessage


class StoredFailure(msgspec.Struct):
    """A request that failed."""

    reason: str
    error: str | None = None
    parameters: dict[str, Any] = {}


class StoredCall(msgspec.Struct):
    """A tool call in a reply."""

    name: str
    arguments: str


class StoredReply(msgspec.Struct):
    """A reply of a model."""

    content: str = ""
    tool_calls: list[StoredCall] | None = None


class StoredModelStep(msgspec.Struct):
    """A request that was answered."""

    reply: StoredReply
    parameters: dict[str, Any] = {}


class StoredToolStep(msgspec.Struct):
    """A tool call with its result."""

    id: str
    name: str
    args: dict[str, Any]
    result: str
    status: str
    error_type: str | None = None
    error_message: str | None = None


class StoredFunction(msgspec.Struct):
    """The definition of a tool for the model."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class StoredDefinition(msgspec.Struct):
    """A tool that was offered."""

    function: StoredFunction


class StoredEnvironment(msgspec.Struct):
    """What a turn ran with."""

    options: dict[str, Any] = {}
    settings: dict[str, Any] = {}


class StoredSetup(msgspec.Struct):
    """The setup of a turn."""

    system: str = ""
    tools: list[StoredDefinition] = []
    facts: dict[str, str] = {}
    environment: StoredEnvironment | None = None
    max_steps: int = 1
    window: int = 0


class StoredTexts(msgspec.Struct):
    """Messages that joined a turn."""

    texts: list[str]


class StoredBudget(msgspec.Struct):
    """Why a budget ended a turn."""

    why: str


class StoredToldWindow(msgspec.Struct):
    """A context window that a server told."""

    tokens: int


#: By the kind of an event, and of a finished step by the kind of step.
SHAPES: dict[str, type[msgspec.Struct]] = {
    "turn_started": StoredStart,
    "attempt_failed": StoredFailure,
    "setup": StoredSetup,
    "model": StoredModelStep,
    "tool": StoredToolStep,
    "steer": StoredTexts,
    "budget": StoredBudget,
    "window": StoredToldWindow,
}
