"""Options and routing of a plugin's model call: validated arguments, messages, and the endpoints to ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hermes.agent.llm.models import Models
from hermes.base.config.schema.sections import AgentProfileConfig
from hermes.base.errors import ConfigError, HermesError, did_you_mean
from hermes.models.endpoint import Endpoint
from hermes.models.vision import able_to_read, sees_images

Message = dict[str, Any]

#: What clocks and servers can count to.
_LARGEST = 10**9
_TEXTS = ("provider", "model", "agent_id", "profile", "purpose", "task")


@dataclass(frozen=True, slots=True)
class PluginCallOptions:
    """The options that all four methods share. An empty choice is none."""

    provider: str = ""
    model: str = ""
    agent_id: str = ""
    profile: str = ""
    purpose: str = ""
    #: The side job that the call belongs to; its settings hold if it has any.
    task: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    #: Seconds for the whole call.
    timeout: float | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> PluginCallOptions:
        """The options of a call. ``ValueError`` names one that makes no sense."""
        return cls(
            **{name: _text(name, options.get(name)) for name in _TEXTS},
            temperature=_number("temperature", options.get("temperature")),
            max_tokens=_count("max_tokens", options.get("max_tokens")),
            timeout=_number("timeout", options.get("timeout")) or None,
        )

    @property
    def choices(self) -> dict[str, str]:
        """What the call chooses itself, as far as it may."""
        return {
            "provider": self.provider,
            "model": self.model,
            "agent_id": self.agent_id,
            "profile": self.profile,
        }


@dataclass(slots=True)
class ModelQuestion:
    """Messages for a model, and the format that its answer should have."""

    messages: list[Message]
    response_format: dict[str, Any] | None = None
    has_images: bool = field(init=False)

    def __post_init__(self) -> None:
        self.has_images = any(map(_has_image, self.messages))


def is_closed(response_format: dict[str, Any] | None) -> bool:
    """Whether a format has a schema that names every property of every object in it."""
    wanted: Any = (response_format or {}).get("json_schema")
    schema: Any = cast("Message", wanted).get("schema") if isinstance(wanted, dict) else None
    return isinstance(schema, dict) and _objects_are_closed(cast("object", schema))


def _objects_are_closed(schema: object) -> bool:
    if isinstance(schema, list):
        return all(map(_objects_are_closed, cast("list[object]", schema)))
    if not isinstance(schema, dict):
        return True
    fields = cast("Message", schema)
    if fields.get("type") == "object" and fields.get("additionalProperties") is not False:
        return False
    return all(map(_objects_are_closed, fields.values()))


def chat_messages(messages: object) -> list[Message]:
    """The messages of a chat, copied. ``ValueError`` when there are none, or one has no role."""
    if not isinstance(messages, list | tuple):
        raise ValueError(f"messages must be a list of {{'role': …, 'content': …}}, got {type(messages).__name__}")
    if not len(cast("Sequence[object]", messages)):
        raise ValueError("messages are empty; give at least one")
    return [
        _chat_message(message, f"messages[{number}]")
        for number, message in enumerate(cast("Sequence[object]", messages))
    ]


def _chat_message(message: object, place: str) -> Message:
    fields = dict(cast("Mapping[str, Any]", message)) if isinstance(message, Mapping) else {}
    role, content, calls = fields.get("role"), fields.get("content"), fields.get("tool_calls")
    if not isinstance(role, str) or not role:
        raise ValueError(f"{place} must be a dictionary with a 'role' and a 'content'")
    # JSON has a form for bytes and sets too, which no model would understand.
    if content is not None and not isinstance(content, str | list | tuple):
        raise ValueError(f"{place}['content'] must be a string or a list of parts, got {type(content).__name__}")
    if calls and not (isinstance(calls, list) and all(isinstance(call, dict) for call in cast("list[object]", calls))):
        raise ValueError(f"{place}['tool_calls'] must be a list of dictionaries")
    return fields


def _has_image(message: Message) -> bool:
    content: object = message.get("content")
    if not isinstance(content, list):
        return False
    parts = cast("list[object]", content)
    return any(isinstance(part, dict) and cast("Message", part).get("type") == "image_url" for part in parts)


def _text(name: str, value: object) -> str:
    if not value:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a string, got {type(value).__name__}")
    # Not ``str(value)``: what is checked has to be what is used, whatever a subclass makes of it.
    return str.__str__(value)


def _number(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST:
        raise ValueError(f"{name} must be a number from 0 to {_LARGEST:,}, got {value!r}")
    return value


def _count(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _LARGEST:
        raise ValueError(f"{name} must be a whole number from 1 to {_LARGEST:,}, got {value!r}")
    return value


#: Settings of all questions, and of those with images.
TASK, VISION_TASK = "plugin_llm", "vision"
DEFAULT_AGENT = "default"


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """Where a question goes, and whose account is used."""

    endpoints: Sequence[Endpoint]
    #: The side job whose settings hold: ``auxiliary.<task>``.
    task: str
    agent_id: str
    #: The stored credential; empty when it is the user's own choice.
    profile: str


def find_route(
    models: Models, main: Sequence[Endpoint], options: PluginCallOptions, question: ModelQuestion
) -> ModelRoute:
    """The way for a question that the configuration allows; ``main`` are the endpoints of its session.

    Raises ``ValueError`` when it names a provider, an agent or a profile that does not exist, and ``HermesError``
    when no model is set up, or none that sees the images.
    """
    task = options.task if models.has_task(options.task) else TASK
    agent = _agent(models, options.agent_id)
    # What an agent has belongs to its provider; another one has other names and other credentials.
    own = agent if options.provider in ("", agent.provider) else AgentProfileConfig()
    provider, model = options.provider or own.provider, options.model or own.model
    profile = options.profile or own.profile
    endpoints: Sequence[Endpoint] = ()
    problem = ""
    if provider or model or profile:
        try:
            endpoints = models.chosen(provider=provider, model=model, profile=profile, main=main)
        except ConfigError as error:
            problem = models.redactor.redact(str(error))
    else:
        endpoints = models.side_job(task, main)
    if problem:
        raise ValueError(problem)  # not in the block above, where the original would become its context
    if question.has_images:
        endpoints = _seeing(models, endpoints, question, profile)
        task = VISION_TASK
    return ModelRoute(endpoints, task, options.agent_id or DEFAULT_AGENT, profile)


def _agent(models: Models, agent_id: str) -> AgentProfileConfig:
    agents = models.config.agents
    if agent_id in ("", DEFAULT_AGENT) and agent_id not in agents:
        return AgentProfileConfig()
    if agent_id not in agents:
        hint = did_you_mean(agent_id, sorted(agents), then=f"agents.{agent_id} in config.yaml adds it")
        raise ValueError(f"there is no agent {agent_id!r}{hint}")
    return agents[agent_id]


def _seeing(models: Models, endpoints: Sequence[Endpoint], question: ModelQuestion, profile: str) -> Sequence[Endpoint]:
    """The endpoints that can see the images. A model about which nothing is known gets them."""
    first = endpoints[0]
    if sees_images(first) is False:
        routed = endpoints if profile else models.side_job(VISION_TASK, endpoints)
        if routed is endpoints:
            alone = f", and with profile {profile!r} no other model is asked" if profile else ""
            raise HermesError(
                f"{first.model} cannot see images{alone}. Name a model that can with 'hermes config set "
                f"auxiliary.vision.model NAME', or set model.supports_vision: true if this one does"
            )
        endpoints = routed
    return able_to_read(endpoints, question.messages)
