"""The runtime that all sessions of a host share, and the table of open sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from hermes.models.local.endpoint import is_embedded

if TYPE_CHECKING:
    from hermes.agent.approvals.gate import Approvals
    from hermes.agent.approvals.responder import Responders
    from hermes.agent.context.inputs import TurnInputs
    from hermes.agent.context.window import Contexts
    from hermes.agent.images.describe import Vision
    from hermes.agent.images.generate import ImageMaker
    from hermes.agent.llm.model_runtime import ModelRuntime
    from hermes.agent.llm.models import Models
    from hermes.agent.memory.memory import Memory
    from hermes.agent.tools.web import WebProviders
    from hermes.agent.workers import Workers
    from hermes.base.config.schema.sections import Config
    from hermes.base.sanitize import Redactor
    from hermes.hooks.table import Hooks
    from hermes.journal.history.search import SearchIndex
    from hermes.journal.runner import Runner
    from hermes.journal.store.port import Store
    from hermes.journal.turns.steps import Message, TurnJournal
    from hermes.models.endpoint import Endpoint
    from hermes.plugins.registry import PromptSection
    from hermes.tools.files.checkpoints.port import CheckpointPort
    from hermes.tools.files.guard import FileGuard
    from hermes.tools.registry import Tool, ToolLimits, ToolRegistry
    from hermes.tools.sandbox.confinement import Confinements
    from hermes.tools.skills.prompt_files import PromptFiles
    from hermes.tools.skills.skills import Skills
    from hermes.tools.terminal.background import ProcessTable


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a host that sessions, turns and calls use. Made once; what differs by session is in ``Session``."""

    home: Path
    config: Config
    store: Store
    runner: Runner
    search: SearchIndex
    hooks: Hooks
    workers: Workers
    redactor: Redactor
    models: Models
    tools: ToolRegistry
    limits: ToolLimits
    processes: ProcessTable
    guard: FileGuard
    confinements: Confinements
    approvals: Approvals
    responders: Responders
    #: Those who know sessions of this host by another type say so where they ask for one.
    open_sessions: OpenSessions[Any]
    contexts: Contexts
    memory: Memory
    images: ImageMaker
    vision: Vision
    skills: Skills
    prompt_files: PromptFiles
    web: WebProviders
    #: Saves files before a turn changes them; None when that is switched off.
    checkpoints: CheckpointPort | None
    #: What turns run with, as the journal records it: versions, plugins, the digest of the configuration.
    environment: Callable[[], dict[str, Any]]
    #: What plugins add to the system prompt of a session, by id; filled when they are loaded.
    prompt_sections: dict[str, PromptSection] = msgspec.field(default_factory=dict)
    #: Where a run that is run again gets the inputs of its turns; None takes them as they are now.
    inputs: TurnInputs | None = None
    #: Seals a session when a turn of it has ended; None when that is not wanted.
    seal: Callable[[str], None] | None = None
    #: The sessions that this process has begun or continued, while a plugin wants to know which are continued.
    begun: set[str] = msgspec.field(default_factory=set[str])
    #: The task lists in use, by session; the journal has them all.
    todo_lists: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class ParentCall(msgspec.Struct, frozen=True):
    """The ``delegate_task`` call that a child session works for."""

    session_id: str
    tool_call_id: str
    subagent_id: str
    #: How many delegations lie between the user and the child.
    level: int
    #: What the system prompt of the child says about its role.
    rules: str


class OpenSession(Protocol):
    """A session as the tools of its turn know it."""

    id: str
    cwd: Path
    principal: str
    parent: ParentCall | None
    #: The models that answer, and the tools that are offered.
    models: ModelRuntime
    offered: list[Tool]
    #: The journal of the running turn.
    journal: TurnJournal | None
    closed: bool

    def messages(self) -> list[Message]:
        """What the model sees of the conversation."""
        ...


AnySession = TypeVar("AnySession", bound=OpenSession)


class OpenSessions(Generic[AnySession]):
    """The sessions that are open in this process, by id. Thread-safe: children come and go on other threads."""

    def __init__(self, default_endpoints: Callable[[], Sequence[Endpoint]]) -> None:
        self._sessions: dict[str, AnySession] = {}
        self._default_endpoints = default_endpoints

    def add(self, session: AnySession) -> AnySession:
        """Add a session; those that were closed since are dropped."""
        for key, known in list(self._sessions.items()):
            if known.closed:
                self._sessions.pop(key, None)
        self._sessions[session.id] = session
        return session

    def get(self, session_id: str) -> AnySession | None:
        """The session with that id, if it is open."""
        session = self._sessions.get(session_id)
        return None if session is None or session.closed else session

    def remove(self, session_id: str) -> None:
        """Drop one session; one that is not there is ignored."""
        self._sessions.pop(session_id, None)

    def clear(self) -> None:
        """Drop them all."""
        self._sessions.clear()

    def messages(self, session_id: str) -> list[Message]:
        """What the model sees of a session; nothing when it is not open."""
        session = self.get(session_id)
        return [] if session is None else session.messages()

    def endpoints(self, session_id: str) -> Sequence[Endpoint]:
        """The models of a session; those of a new one when it is not open."""
        session = self.get(session_id)
        return self._default_endpoints() if session is None else session.models.endpoints

    def uses_embedded_model(self, session_id: str) -> bool:
        """Whether the embedded model may answer in that session."""
        session = self.get(session_id)
        return session is not None and any(map(is_embedded, session.models.endpoints))

    def __iter__(self) -> Iterator[AnySession]:
        return iter(list(self._sessions.values()))

    def __len__(self) -> int:
        return len(self._sessions)
