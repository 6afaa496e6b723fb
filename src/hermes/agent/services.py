"""The services of the host for plugins: the implementation of ``HostServices`` behind ``ctx``."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.base.config.files import profile_name
from hermes.base.config.principals import default_workspace
from hermes.base.errors import PluginError, SessionNotFound, TurnSuspended
from hermes.base.sanitize.surrogates import encodable
from hermes.base.scope import Scope, current_principal, current_scope, new_id
from hermes.hooks.threads.timed_call import host_work, refuse_late_calls
from hermes.journal.sessions import Sessions
from hermes.models.reply import ToolRequest
from hermes.tools.results import tool_error

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from hermes.agent.llm.plugin_calls import PluginModels
    from hermes.agent.pipelines.tool_call import ToolCall
    from hermes.agent.pipelines.tool_outcome import ToolOutcome
    from hermes.agent.runtime import Runtime
    from hermes.agent.session import Session
    from hermes.base.config.load import FreshConfig
    from hermes.journal.turns.steps import TurnJournal
    from hermes.models.endpoint import Endpoint
    from hermes.plugins.http import PluginHttp
    from hermes.plugins.llm.access import ModelAccess
    from hermes.tools.skills.manifest import SkillManifest

log = logging.getLogger("hermes.host")

#: How deep tools that call tools may go.
MAX_DEPTH = 4


class Services:
    """The services of one host to its plugins. Thread-safe."""

    def __init__(self, runtime: Runtime, *, cwd: Path, platform: str, fresh_config: FreshConfig) -> None:
        #: What the modules with upstream's names read.
        self.home, self.config, self.redactor = runtime.home, runtime.config, runtime.redactor
        self._runtime = runtime
        self._cwd = cwd
        self._platform = platform
        self._fresh_config = fresh_config
        #: Makes the schedules that plugins see; set by the host.
        self.schedules: Callable[[], Any] | None = None
        #: Open a session, a new one and one that is stored; set by the host.
        self.new_session: Callable[..., Session] | None = None
        self.resume_session: Callable[..., Session] | None = None
        #: Takes a message when no turn is running: a prompt that starts one with it.
        self.take_message: Callable[[str], bool] | None = None
        self._models: PluginModels | None = None
        self._models_lock = threading.Lock()
        self._session_files: TemporaryDirectory[str] | None = None
        self._session_files_lock = threading.Lock()

    @property
    def profile_name(self) -> str:
        """The active profile: ``default``, or ``custom`` for another home."""
        return profile_name(self.home)

    @property
    def current_cwd(self) -> Path:
        """The folder of the session that the caller works for; the host's own outside of sessions."""
        scope = current_scope.get()
        session: Session | None = None if scope is None else self._runtime.open_sessions.get(scope.session_id)
        return self._cwd if session is None else session.cwd

    @property
    def http(self) -> PluginHttp:
        """HTTP requests over the host's client."""
        from hermes.plugins.http import PluginHttp  # most runs have no plugin that sends any

        return PluginHttp(self._runtime.models.driver.http, allow_private=self.config.security.allow_private_urls)

    def dispatch_tool(self, name: str, args: dict[str, Any], **_kwargs: Any) -> str:
        """Run a tool in the session of the caller, through the same pipeline as the model's own calls."""
        scope = current_scope.get() or Scope(platform=self._platform)
        session: Session | None = self._runtime.open_sessions.get(scope.session_id)
        cwd, journal = (self._place(scope.principal), None) if session is None else (session.cwd, session.journal)
        with host_work():
            return dispatch_call(self._runtime, scope, cwd, name, args, journal)

    def _place(self, principal: str) -> Path:
        """Where work outside of a session is done: never in the owner's folder for another caller."""
        return default_workspace(self.home, principal) if principal else self._cwd

    def inject_message(self, content: str, role: str) -> bool:
        """Add a message to the running turn of the caller's session, or start one at an idle prompt.

        False when there is neither.
        """
        refuse_late_calls()
        text = content if role == "user" else f"[{role}] {content}"
        scope = current_scope.get()
        # Without a scope a child session cannot be meant: only its parent talks to it.
        candidates: list[Session] = [
            session
            for session in self._runtime.open_sessions
            if (session.level == 0 if scope is None else session.id == scope.session_id)
        ]
        if len(candidates) == 1 and candidates[0].steer(text):
            return True
        is_child = scope is not None and self.is_child(scope.session_id)
        if not is_child and self.take_message is not None and self.take_message(text):
            return True
        log.warning("a plugin's message was not taken: no running conversation that it could belong to")
        return False

    def check_call(
        self, tool_name: str, args: dict[str, Any], *, reason: str = "", rule_key: str = ""
    ) -> tuple[bool, str]:
        """Whether a call would be allowed now, by the rules and questions of the model's own calls; else why not.

        ``reason`` has it approved in any case.
        """
        from hermes.agent.approvals.owed import OwedAnswer
        from hermes.agent.pipelines.tool_context import tool_context
        from hermes.policy import Finding

        scope = current_scope.get() or Scope(platform=self._platform)
        session: Session | None = self._runtime.open_sessions.get(scope.session_id)
        tool = self._runtime.tools.get(tool_name)
        if tool is None:
            return False, f"there is no tool {tool_name!r}"
        context = tool_context(self._runtime, scope, self._cwd if session is None else session.cwd)
        findings = (Finding(f"plugin_rule:{rule_key or tool_name}", reason, ""),) if reason else ()
        approvals, owed = self._runtime.approvals, OwedAnswer()
        try:
            with host_work():
                examined = approvals.examine(tool, args, context)
                decision = approvals.decide(tool, args, context, examined, plugin=findings, owed=owed)
        except TurnSuspended:
            approvals.settle(owed, scope, "the answer cannot come later")
            return False, "it needs an approval, which cannot be given in the middle of this call"
        return decision.allowed, decision.message

    def list_sessions(self, limit: int) -> list[dict[str, Any]]:
        """The latest sessions of the caller that the running work belongs to."""
        rows = Sessions(self._runtime.store).list(limit=limit, principal=current_principal())
        return [
            {
                "id": row.id,
                "title": row.title,
                "source": row.platform,
                "model": row.model,
                "started_at": row.created_at,
                "last_active": row.updated_at,
                "turn_count": row.turns,
            }
            for row in rows
        ]

    def session_messages(self, session_id: str) -> list[dict[str, Any]]:
        """The messages of a session of that caller."""
        sessions = Sessions(self._runtime.store)
        if sessions.get(session_id).principal != current_principal():
            raise SessionNotFound(f"no session {session_id}")
        return [dict(message) for message in sessions.messages(session_id)]

    def session_file(self) -> Path:
        """A copy of the sessions of that caller, for plugins that read a database themselves. It ends with the host."""
        from hashlib import sha256
        from tempfile import TemporaryDirectory

        from hermes.journal.history.session_file import write_session_file

        principal = current_principal()
        with self._session_files_lock:
            if self._session_files is None:
                self._session_files = TemporaryDirectory(prefix="hermes-sessions-")
            path = Path(self._session_files.name) / f"{sha256(principal.encode()).hexdigest()[:16]}.db"
            write_session_file(self._runtime.store, path, principal)
        return path

    def agent_session(self, session_id: str, platform: str) -> Session:
        """The session of that id for an agent that a plugin starts; a new one when there is none."""
        if self.new_session is None or self.resume_session is None:
            raise PluginError("this host starts no agents for plugins")
        principal, already = current_principal(), self._runtime.open_sessions.get(session_id)
        if already is not None and already.principal == principal:
            return already
        try:
            head = Sessions(self._runtime.store).head(session_id)
        except SessionNotFound:
            head = None
        if head is None or head.id != session_id:  # another one may begin with the same letters
            place = self._place(principal)
            return self.new_session(principal=principal, cwd=place, platform=platform, session_id=session_id)
        if head.principal != principal:
            raise SessionNotFound(f"no session {session_id}")
        return self.resume_session(session_id, platform=platform)

    def endpoint(self) -> Endpoint:
        """The model that answers the caller."""
        scope = current_scope.get()
        return self._runtime.open_sessions.endpoints("" if scope is None else scope.session_id)[0]

    def skills(self) -> list[SkillManifest]:
        """The skills of the session that the caller works for."""
        return self._runtime.skills.usable(self.current_cwd, current_principal())

    def condense(
        self, messages: list[dict[str, Any]], current_tokens: int | None, *, focus: str, notes: str
    ) -> list[dict[str, Any]]:
        """A shorter conversation by the built-in engine, for a plugin's engine that adds to it."""
        from hermes.agent.context.compressor import Compressor

        scope = current_scope.get() or Scope(platform=self._platform)
        contexts = self._runtime.contexts
        endpoints = self._runtime.open_sessions.endpoints(scope.session_id)
        ask, reader = contexts.asker(scope, endpoints)
        compressor = Compressor(self.config.compression, contexts.length_for(endpoints[0]))
        with host_work():
            return compressor.compress(
                messages, current_tokens, focus_topic=focus, notes=notes, ask=ask, reader_tokens=reader
            )

    def is_child(self, session_id: str) -> bool:
        """Whether a session is that of a child agent."""
        session: Session | None = self._runtime.open_sessions.get(session_id)
        return session is not None and session.level > 0

    def llm(self, plugin_id: str) -> ModelAccess:
        """The model access of one plugin."""
        if self._models is None:
            from hermes.agent.llm.plugin_calls import PluginModels  # most runs have no plugin that asks

            runtime = self._runtime
            with self._models_lock:
                self._models = self._models or PluginModels(
                    runtime.models,
                    runtime.store,
                    runtime.workers,
                    config=self._fresh_config,
                    endpoints_of=runtime.open_sessions.endpoints,
                )
        return self._models.access(plugin_id)

    def close(self) -> None:
        """Close what the plugins used of it."""
        if self._models is not None:
            self._models.close()
        if self._session_files is not None:
            self._session_files.cleanup()


def dispatch_call(
    runtime: Runtime,
    outer: Scope,
    cwd: Path,
    name: str,
    args: dict[str, Any],
    journal: TurnJournal | None = None,
    when_untrusted: Callable[[], None] | None = None,
) -> str:
    """Run a tool with the ids of the caller's scope, and return what the model would see, without a mark.

    With the ``journal`` of the running turn the call is recorded: a trace shows it, and no replay runs it again.
    ``when_untrusted`` is called when the result is untrusted text.
    """
    from hermes.agent.pipelines.tool_call import ToolCall
    from hermes.agent.pipelines.tool_context import tool_context
    from hermes.agent.pipelines.tool_outcome import data_problem

    problem = data_problem(args)
    if problem is not None:
        return tool_error(problem)
    if outer.depth >= MAX_DEPTH:
        return tool_error(f"tools that call tools may go {MAX_DEPTH} deep; this call would be deeper")
    call_id = f"{outer.tool_call_id or 'plugin'}/{new_id()[:8]}"
    scope = outer.nested(call_id)
    request = ToolRequest(call_id, name, msgspec.json.encode(encodable(args)).decode())
    call = ToolCall(runtime, request, scope, runtime.tools.get(name), tool_context(runtime, scope, cwd))
    try:
        outcome = call.prepare() or _execute(call, journal)
    except BaseException as error:
        outcome = call.cancelled(type(error).__name__)
        _record(call, outcome, journal)
        call.finish(call.ended(outcome))
        raise
    _record(call, outcome, journal)
    ended = call.ended(outcome)
    text = call.finish(ended)
    if when_untrusted is not None and call.is_untrusted(ended):
        when_untrusted()
    if journal is not None:
        call.record_change(journal, f"dispatch:{call.request.id}")
    return text


def _execute(call: ToolCall, journal: TurnJournal | None) -> ToolOutcome:
    if journal is not None and call.unsafe:
        journal.event("dispatch_claimed", f"dispatch:{call.request.id}", call.claim())
        journal.commit()
    return call.execute()


def _record(call: ToolCall, outcome: ToolOutcome, journal: TurnJournal | None) -> None:
    if journal is None:
        return
    # It is written by the commit of the running step.
    journal.event("dispatch_done", f"dispatch:{call.request.id}", call.record(outcome))
