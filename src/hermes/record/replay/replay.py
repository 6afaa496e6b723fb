"""Replay: a recorded run once more, through the same pipelines, with models and tools answered from the record."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from hermes.agent.children.assignments import DELEGATE
from hermes.agent.session import Session
from hermes.base.config.changes import changed_settings
from hermes.base.config.schema.sections import BudgetsConfig, Config
from hermes.base.config.secrets import home_secrets
from hermes.base.errors import HermesError
from hermes.base.sanitize import Redactor
from hermes.base.scope import Interrupt, new_id
from hermes.host import RECORDED_OPTIONS, Host, HostOptions
from hermes.journal.history.copies import (
    SessionRows,
    read_sessions,
    read_turns,
    remove_turns,
    set_head,
    stored_bytes,
    write_rows,
)
from hermes.journal.leases import is_stored
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.models.profiles import PROFILES
from hermes.record.bundle import write_bundle
from hermes.record.compare import Difference, compare_recordings, compare_turns
from hermes.record.recording import Recording, TurnRecording, load_recording
from hermes.record.replay.tools import RecordedInputs, RecordedResponder, RecordedTools, RecordedWindows
from hermes.record.replay.transport import NoNetwork, RecordedTransport
from hermes.tools.toolsets import toolset_name, toolsets

ToolMode = Literal["recorded", "live"]

#: Failures are repeated as often as the record says.
_NO_LIMIT = 1_000
#: A replay needs no disk that survives a power failure; a folder in memory is faster where there is one.
_MEMORY = Path("/dev/shm")
#: Exporters would report the run once more, and faults that were injected are in the record.
_LEFT_OUT = ("observability/otel", "observability/langfuse", "observability/nemo_relay", "chaos")


class ReplayResult(msgspec.Struct):
    """How a replay went."""

    session_id: str
    differences: list[Difference] = []
    turns: int = 0
    steps: int = 0
    #: Seconds that the turns took, with the CPU for them and for comparing them, and those of the original.
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    recorded_seconds: float = 0.0
    #: What is to be known about the result, a line each.
    notes: list[str] = []
    #: The run as it was now, when it was asked for.
    recording: Recording | None = None
    #: The same as the text of a bundle.
    bundle: str = ""

    @property
    def identical(self) -> bool:
        """Whether the run was the same."""
        return not self.differences


class ReplaySettings(msgspec.Struct, frozen=True):
    """How a run is replayed."""

    tools: ToolMode = "recorded"
    #: Compare the environment and the decisions of plugins too.
    strict: bool = False
    #: Only this turn, counted from 1.
    turn: int | None = None
    #: Stop at the first turn that differs.
    stop_early: bool = True
    #: Keep the new run: every turn follows those that were run again, not the recorded ones.
    keep: bool = False


def replay(
    store: Store,
    session_id: str,
    home: Path,
    config: Config,
    settings: ReplaySettings | None = None,
    *,
    plugin_objects: Sequence[object] = (),
    interrupt: Interrupt | None = None,
) -> ReplayResult:
    """Run a recorded session again with ``config`` and the plugins of ``home``. Nothing is written to either.

    Raises ``HermesError`` when the record cannot be run again, and ``Interrupted`` when that was cancelled.
    """
    recording = load_recording(store, session_id)
    if recording.parent_id is not None:
        raise HermesError(
            f"session {recording.id} is that of a child agent; replay the one that delegated to it: "
            f"hermes replay {recording.parent_id}"
        )
    settings = settings or ReplaySettings()
    with tempfile.TemporaryDirectory(prefix="hermes-replay-", dir=_scratch_place(store)) as folder:
        run = _ReplayRun(store, recording, home, config, settings, Path(folder))
        run.interrupt = interrupt or run.interrupt
        with run.open(plugin_objects) as host:
            return run.run(host)


def recorded_config(recording: Recording) -> Config | None:
    """The settings that a session was recorded with, without secrets. None when the record does not have them."""
    for turn in reversed(recording.turns):
        found = turn.environment.get("settings")
        if found is not None:
            try:
                return msgspec.convert(found, Config)
            except msgspec.ValidationError as error:
                raise HermesError(f"the recorded settings do not fit this version of hermes: {error}") from None
    return None


def _scratch_place(store: Store) -> Path | None:
    """In memory where there is room for the whole journal and its log; else where temporary files are."""
    try:
        room, needed = os.statvfs(_MEMORY), 2 * stored_bytes(store)
    except OSError:
        return None
    return _MEMORY if os.access(_MEMORY, os.W_OK) and room.f_bavail * room.f_frsize > needed else None


class _ReplayRun:
    """One replay: a host whose models, tools, inputs and user are the record."""

    def __init__(
        self, store: Store, recording: Recording, home: Path, config: Config, settings: ReplaySettings, folder: Path
    ) -> None:
        self._store = store
        self._recording = recording
        self._home = home
        self._today = changed_settings(config)
        self._config = _for_replay(config, live=settings.tools == "live")
        self._settings = settings
        self._folder = folder
        self._transport = RecordedTransport(recording)
        self._tools = RecordedTools(recording)
        self._result = ReplayResult(recording.id)
        self._session: Session | None = None
        self.interrupt = Interrupt()
        #: How many turns of the record the scratch journal has.
        self._copied = 0

    @contextlib.contextmanager
    def open(self, plugin_objects: Sequence[object]) -> Generator[Host]:
        recording = self._recording
        cwd = Path(recording.cwd)
        if self._settings.tools == "live" and not cwd.is_dir():
            raise HermesError(f"the run worked in {cwd}, which does not exist here; live tools need it")
        host = Host(
            self._home,
            self._config,
            self._options(plugin_objects),
            cwd=cwd if cwd.is_dir() else self._folder,
            env=_environment(self._config),
            redactor=Redactor() if self._settings.tools == "live" or self._settings.keep else _NothingToMask(),
        )
        with host:
            host.models.driver.http = NoNetwork()
            host.models.health = None  # what has failed in the recording is asked again as often
            host.runtime.contexts.servers = RecordedWindows(recording)
            host.approvals.keeps_rules = False
            self._transport.position = lambda session_id: _attempts_made(host, session_id)
            if self._settings.tools == "recorded":
                self._tools.install(host.tools)
            if host.options.toolsets is not None:
                known = toolsets(host.tools)
                kept = [name for name in map(toolset_name, host.options.toolsets) if name in known]
                host.options = replace(host.options, toolsets=kept)
            yield host

    def _options(self, plugin_objects: Sequence[object]) -> HostOptions:
        found = [turn.environment for turn in self._recording.turns if turn.environment]
        environment = found[0] if found else {}
        recorded: dict[str, Any] = environment.get("options") or {}
        known: dict[str, Any] = {name: value for name, value in recorded.items() if name in RECORDED_OPTIONS}
        known.setdefault("platform", self._recording.platform)
        return replace(
            HostOptions(**known),
            provider=self._recording.provider,
            model=self._recording.model,
            plugin_objects=plugin_objects,
            journal=self._folder,
            inputs=RecordedInputs(self._recording),
            transport=self._transport,
        )

    # -- turns --------------------------------------------------------------------------------------------------

    def run(self, host: Host) -> ReplayResult:
        result = self._result
        host.store.write_soon(lambda _connection: None)  # makes the tables
        for turn in self._wanted():
            self._copy_before(host.store, turn.ordinal)
            differences = self._replay_turn(host, turn)
            result.differences += differences
            if differences and self._settings.stop_early:
                break
        if self._settings.keep:
            result.recording = load_recording(host.store, self._recording.id)
            result.bundle = write_bundle(host.store, self._recording.id)
        result.differences += self._settings_changed() if self._settings.strict else ()
        result.notes += [f"tool {name} is not here; its recorded definition was used" for name in self._tools.missing]
        if self._settings.strict and self._tools.missing:
            missing = ", ".join(self._tools.missing)
            result.differences.append(Difference(result.session_id, 1, "setup", "tools", missing, None))
        if result.differences:
            self._mask(result)
        return result

    def _mask(self, result: ReplayResult) -> None:
        """Hide the secrets of this home: code of plugins ran, which may know some."""
        redactor = Redactor()
        redactor.add_secrets(home_secrets(self._home, self._config, os.environ))
        result.differences = [
            replace(one, before=redactor.mask_data(one.before), after=redactor.mask_data(one.after))
            for one in result.differences
        ]

    def _settings_changed(self) -> list[Difference]:
        """Settings that are not as they were."""
        last = next((turn for turn in reversed(self._recording.turns) if turn.environment), None)
        before: Any = last.environment.get("settings") if last is not None else None
        if last is None or before is None or before == self._today:
            return []
        return [Difference(self._recording.id, last.number, "setup", "environment.settings", before, self._today)]

    def _wanted(self) -> list[TurnRecording]:
        number = self._settings.turn
        if number is not None:
            turn = self._recording.turn(number)
            problem = _why_not(turn)
            if problem:
                raise HermesError(f"turn {number} of session {self._recording.id} {problem}")
            return [turn]
        wanted: list[TurnRecording] = []
        for turn in self._recording.turns:
            problem = _why_not(turn)
            if problem:
                self._result.notes.append(f"turn {turn.number} was left out: it {problem}")
            else:
                wanted.append(turn)
        if not wanted:
            raise HermesError(f"session {self._recording.id} has no turn that can be replayed")
        return wanted

    def _copy_before(self, scratch: Store, ordinal: int) -> None:
        """Bring the scratch journal to where the record was before a turn."""
        recording = self._recording
        if ordinal == self._copied:
            return
        first = self._copied
        rows = self._store.read(lambda connection: read_turns(connection, recording.id, first, ordinal))
        if first == 0:
            session = self._store.read(lambda connection: read_sessions(connection, [recording.id]))
            rows.tables["sessions"] = session.tables["sessions"]
        self._replace_from(scratch, first, rows)
        self._copied = ordinal

    def _replace_from(self, scratch: Store, first: int, rows: SessionRows) -> None:
        """Let the scratch journal have these rows instead of its turns from ``first`` on."""
        session_id = self._recording.id

        def write(connection: JournalConnection) -> None:
            if is_stored(connection, session_id):
                rows.tables["sessions"] = []
            remove_turns(connection, session_id, first)
            write_rows(connection, rows)
            set_head(connection, session_id)

        scratch.write(write)

    def _replay_turn(self, host: Host, turn: TurnRecording) -> list[Difference]:
        was_open = self._session is not None
        differences = self._run_once(host, turn)
        if differences and was_open:
            # Perhaps another process continued the session here, and did not know how full the window was.
            self._session = None
            self._transport.reset()
            self._replace_from(host.store, turn.ordinal, SessionRows())
            differences = self._run_once(host, turn)
        return differences

    def _run_once(self, host: Host, turn: TurnRecording) -> list[Difference]:
        session = self._session or self._open_session(host, turn)
        session.models = self._models(host, turn)
        memory = host.runtime.memory
        tools = [
            tool
            for tool in host.offered_tools(principal=session.principal)
            if not memory.is_closed_to(session.principal, tool)
        ]
        session.offered = self._tools.order(tools, host.tools, turn)
        started, cpu = time.perf_counter(), time.process_time()
        self.interrupt.check()
        own = Interrupt()  # a recorded interrupt ends its turn alone
        with self.interrupt.on_cancel(lambda: own.cancel(self.interrupt.reason)):
            session.run(
                turn.message,
                task_id=turn.task_id,
                request_key=turn.request_key,
                is_structured=not turn.setup.continues,
                interrupt=own,
            )
        self.interrupt.check()
        self._result.seconds += time.perf_counter() - started
        self._result.recorded_seconds += max((turn.ended_at or turn.started_at) - turn.started_at, 0.0)
        self._result.turns += 1
        self._result.steps += sum(key.startswith("model:") for key in turn.steps)
        self._session = session
        if self._settings.keep:
            self._copied = turn.ordinal + 1
        differences = self._compare(host, turn)
        self._result.cpu_seconds += time.process_time() - cpu
        return differences

    def _open_session(self, host: Host, turn: TurnRecording) -> Session:
        recording = self._recording
        session = Session(
            host.runtime,
            recording.id,
            models=self._models(host, turn),
            offered=[],
            max_steps=turn.setup.max_steps or host.options.max_turns or host.config.agent.max_turns,
            cwd=Path(recording.cwd),
            platform=recording.platform,
            principal=recording.principal,
            is_new=turn.ordinal == 0,
        )
        for one in recording.family():
            if one.questions:
                host.responders.attach(one.id, RecordedResponder(one.questions))
        return host.open_sessions.add(session)

    def _models(self, host: Host, turn: TurnRecording) -> Any:
        asked = next((call for call in turn.calls if call.key.startswith("model:") and call.provider), None)
        first = turn.attempts[0].body.parameters.get("model", "") if turn.attempts else ""
        provider = asked.provider if asked else self._recording.provider
        models = host.models.conversation(provider=provider, model=first or self._recording.model)
        return replace(models, max_retries=_NO_LIMIT)

    def _compare(self, host: Host, turn: TurnRecording) -> list[Difference]:
        strict, session_id = self._settings.strict, self._recording.id
        again = load_recording(host.store, session_id, first_turn=turn.ordinal, with_messages=False)
        found = compare_turns(session_id, turn, again.turns[0], strict=strict)
        if found:  # its messages show why a request is another one
            again = load_recording(host.store, session_id, first_turn=turn.ordinal)
            found = compare_turns(session_id, turn, again.turns[0], strict=strict)
        if self._settings.tools == "recorded":
            calls = {call.id for call in turn.tool_calls().values() if call.name == DELEGATE}
            children = {child.id: child for child in again.children}
            for child in self._recording.children:
                if child.parent_call in calls and child.id in children:
                    found += compare_recordings(child, children[child.id], strict=strict)
        if not found:
            for miss in self._transport.misses:
                found.append(Difference(session_id, turn.number, "side call", "request", miss.nearest, miss.request))
        return found


class _NothingToMask(Redactor):
    """The redactor of a run whose secrets were masked when it was recorded: those of this home have no part in it."""

    def add_secret(self, value: str, name: str = "") -> None:
        """Ignore it."""


def _attempts_made(host: Host, session_id: str) -> int:
    """How many requests the running turn of a session has made."""
    session = host.open_sessions.get(session_id)
    return 0 if session is None or session.journal is None else session.journal.attempts_made


def _why_not(turn: TurnRecording) -> str:
    """Why a turn cannot be replayed; empty when it can be."""
    if turn.undone:
        return "was undone, and is not part of the conversation"
    if turn.state in ("running", "queued"):
        return "is not finished; 'hermes chat --resume' finishes it"
    if "setup" not in turn.steps:
        return "ended before it was set up, so that there is nothing to run again"
    if turn.error and turn.error.startswith(("given up", "the turn was taken up")):
        return "was given up after its process ended"
    return ""


def _for_replay(config: Config, *, live: bool) -> Config:
    """The settings without what reaches out of the process or remembers: exporters, memory, budgets, hook commands."""
    config = msgspec.convert(msgspec.to_builtins(config), Config)
    config.plugins.disabled = [*config.plugins.disabled, *_LEFT_OUT]
    config.memory.provider = ""
    config.context.project_instructions = False  # they are in the record
    config.budgets = BudgetsConfig()
    config.auxiliary.transient_retries = _NO_LIMIT
    if not live:
        config.hooks.events = {}
        config.mcp_servers = {}  # what their tools returned is in the record
    return config


def _environment(config: Config) -> Mapping[str, str]:
    """The environment with a key for every provider: none of them is sent anywhere."""
    key = new_id("replay-key-")
    env = dict(os.environ)
    for profile in PROFILES.values():
        for variable in profile.key_env:
            env[variable] = key
    if not config.model.base_url:
        env.setdefault("CUSTOM_BASE_URL", "http://replay.invalid/v1")
    return env
