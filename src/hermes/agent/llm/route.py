"""Which endpoints a plugin's question goes to: where the user's conversation is, or what the plugin may choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hermes.agent.llm.question import CallOptions, Question
from hermes.agent.llm.source import ModelSource
from hermes.config.sections import AgentProfileConfig
from hermes.errors import ConfigError, HermesError
from hermes.models.endpoint import Endpoint
from hermes.models.vision import able_to_read, sees_images

#: Settings of all questions, and of those with images.
TASK, VISION_TASK = "plugin_llm", "vision"
DEFAULT_AGENT = "default"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a question goes, and whose account is used."""

    endpoints: Sequence[Endpoint]
    #: The side job whose settings hold: ``auxiliary.<task>``.
    task: str
    agent_id: str
    #: The stored credential; empty when it is the user's own choice.
    profile: str


class Routes:
    """Finds the way for questions that the configuration allows."""

    def __init__(self, source: ModelSource, endpoints_of: Callable[[str], Sequence[Endpoint]]) -> None:
        """``endpoints_of`` tells where a session is held; for an empty id, where the user's next one would be."""
        self._source = source
        self._endpoints_of = endpoints_of

    def find(self, options: CallOptions, question: Question, session_id: str) -> Route:
        """The way for a question.

        Raises ``ValueError`` when it names a provider, an agent or a profile that does not exist, and ``HermesError``
        when no model is set up, or none that sees the images.
        """
        main = self._endpoints_of(session_id)
        agent = self._agent(options.agent_id)
        # What an agent has belongs to its provider; another one has other names and other credentials.
        own = agent if options.provider in ("", agent.provider) else AgentProfileConfig()
        provider, model = options.provider or own.provider, options.model or own.model
        profile = options.profile or own.profile
        if provider or model or profile:
            endpoints = self._chosen(provider, model, profile, main)
        else:
            endpoints = self._source.side_job(TASK, main)
        if question.has_images:
            endpoints = self._seeing(endpoints, question, profile)
        task = VISION_TASK if question.has_images else TASK
        return Route(endpoints, task, options.agent_id or DEFAULT_AGENT, profile)

    def _agent(self, agent_id: str) -> AgentProfileConfig:
        agents = self._source.config.agents
        if agent_id in ("", DEFAULT_AGENT) and agent_id not in agents:
            return AgentProfileConfig()
        if agent_id not in agents:
            known = ", ".join(sorted(agents)) or "none"
            raise ValueError(
                f"there is no agent {agent_id!r}; agents.{agent_id} in config.yaml adds it (known: {known})"
            )
        return agents[agent_id]

    def _chosen(self, provider: str, model: str, profile: str, main: Sequence[Endpoint]) -> list[Endpoint]:
        try:
            return self._source.chosen(provider=provider, model=model, profile=profile, main=main)
        except ConfigError as error:
            told = self._source.redactor.redact(str(error))
        raise ValueError(told)

    def _seeing(self, endpoints: Sequence[Endpoint], question: Question, profile: str) -> Sequence[Endpoint]:
        """Where somebody can look at the images. A model that nothing is known about gets them."""
        first = endpoints[0]
        if sees_images(first) is False:
            routed = endpoints if profile else self._source.side_job(VISION_TASK, endpoints)
            if routed is endpoints:
                nobody = f", and with profile {profile!r} no other model is asked" if profile else ""
                raise HermesError(
                    f"{first.model} cannot see images{nobody}. Name a model that can with 'hermes config set "
                    f"auxiliary.vision.model NAME', or set model.supports_vision: true if this one does"
                )
            endpoints = routed
        return able_to_read(endpoints, question.messages)
