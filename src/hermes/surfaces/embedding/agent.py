"""The front door for programs: an agent opened from a home and a few arguments, and its sessions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, cast

from msgspec.structs import replace

from hermes.agent.events import Listener, Listeners, TurnResult, ignore_events
from hermes.base.config import Config, hermes_home, load_config, load_env_file
from hermes.base.config.load import load_document
from hermes.base.errors import HermesError
from hermes.base.scope import Interrupt
from hermes.contract.events import TurnEvent
from hermes.host import Host, HostOptions
from hermes.journal.turns.recovery import GIVEN_UP
from hermes.surfaces.embedding import arguments
from hermes.surfaces.embedding.callbacks import (
    AnswerQuestion,
    Approve,
    CallbackFailures,
    CallbackResponder,
    caller_loop,
)
from hermes.surfaces.embedding.function_tool import function_tools
from hermes.surfaces.embedding.output import OutputFormat, run_structured
from hermes.surfaces.embedding.running import RunningTurn, RunningTurns
from hermes.surfaces.embedding.stream import AsyncTurnStream, RunTurn, TurnStream

if TYPE_CHECKING:
    from hermes.agent.session import Session
    from hermes.agent.workers import Workers

S = TypeVar("S")

#: What a user says: text, or content parts as in the chat completions format.
UserMessage = str | list[dict[str, Any]]


_A_PART = '{"type": "text", "text": "Hello"}'


class TurnOptions(TypedDict, total=False):
    """The options of a turn whose events are iterated over."""

    #: A type or a JSON schema that the answer must fit; the value is ``result.output``.
    output: Any
    #: Image files to send along.
    images: Sequence[str | Path]
    #: An idempotency key: the same key again returns the recorded answer and runs nothing.
    request_key: str | None
    #: Cancels the turn, from any thread.
    interrupt: Interrupt | None


class RunOptions(TurnOptions, total=False):
    """The options of a turn."""

    #: Called with every event: by ``run`` in the thread of the turn, by ``arun`` on the event loop.
    on_event: Callable[[TurnEvent], None]


class Agent:
    """Hermes inside a program. Without arguments it is the agent that ``hermes chat`` runs: the same home, the same
    configuration, model, plugins and sessions. Close it when done, or use it in a ``with`` block.

    ``config`` holds settings as ``config.yaml`` has them, on top of the home's file; a ``Config`` replaces the file.
    ``plugins`` are keys of installed plugins, or objects (modules too) with a ``register(ctx)`` function. ``tools`` are
    Python functions, always offered to the model. ``toolsets`` limits the built-in tools: an empty list leaves none.
    ``approve`` decides about tool calls that need an approval; without it they are denied.
    """

    def __init__(
        self,
        *,
        home: str | Path | None = None,
        config: Mapping[str, Any] | Config | None = None,
        model: str = "",
        provider: str = "",
        base_url: str = "",
        api_key: str = "",
        system_prompt: str = "",
        tools: Sequence[Callable[..., Any]] = (),
        toolsets: Sequence[str] | None = None,
        plugins: Sequence[Any] = (),
        approve: Approve | None = None,
        answer: AnswerQuestion | None = None,
        cwd: str | Path | None = None,
        max_turns: int | None = None,
    ) -> None:
        arguments.check_texts(
            model=model, provider=provider, base_url=base_url, api_key=api_key, system_prompt=system_prompt
        )
        arguments.check_paths(home=home, cwd=cwd)
        arguments.check_settings(config)
        arguments.check_functions(approve=approve, answer=answer)
        arguments.check_max_turns(max_turns)
        toolsets = None if toolsets is None else arguments.checked_list("toolsets", toolsets)
        plugins = arguments.checked_list("plugins", plugins)
        # A program that sets up no logging does not want warnings on its stderr.
        log = logging.getLogger("hermes")
        if not log.handlers:
            log.addHandler(logging.NullHandler())
        folder = None if cwd is None else Path(cwd).expanduser().resolve()
        if folder is not None and not folder.is_dir():
            raise HermesError(f"cwd: {folder} is not a folder; name an existing one")
        place = hermes_home() if home is None else Path(home).expanduser()
        environment = {**load_env_file(place), **os.environ}
        endpoint = _endpoint_settings(provider, base_url, api_key)
        overlay = {"model": endpoint, "agent": {"system_prompt": system_prompt} if system_prompt else {}}
        settings, self._warnings = _configuration(place, config, overlay, environment)
        self._turns = RunningTurns()
        self._host = Host(
            place,
            settings,
            HostOptions(
                provider="" if endpoint else provider,
                model=model,
                toolsets=toolsets,
                max_turns=max_turns,
                plugins=[plugin for plugin in plugins if isinstance(plugin, str)],
                plugin_objects=[plugin for plugin in plugins if not isinstance(plugin, str)],
                tools=function_tools(arguments.checked_list("tools", tools)),
                platform="embedding",
                unattended=not (approve or answer),
            ),
            cwd=folder,
            env=environment,
        )
        self._failures = CallbackFailures(self._host.notices, self._host.redactor)
        self._responder = CallbackResponder(approve, answer, self._failures) if approve or answer else None

    @property
    def notices(self) -> list[str]:
        """Warnings, one line each: about unknown settings, plugins that did not load, callbacks that failed."""
        host = self._host
        problems = [
            f"plugin {one.manifest.key}: {problem}"
            for one in host.plugins.loaded
            for problem in one.problems
            if problem not in one.refused  # the host tells about those
        ]
        return [*self._warnings, *map(host.redactor.redact, problems), *host.notices]

    def session(self, session_id: str | None = None) -> AgentSession:
        """A new conversation, or the recorded one with that id (or a unique beginning of it)."""
        if session_id is not None:
            arguments.check_texts(session_id=session_id)
        return self._open(session_id)

    def run(self, message: UserMessage, **options: Unpack[RunOptions]) -> TurnResult:
        """Answer one message in a conversation of its own. The options are those of ``AgentSession.run``."""
        return self._open(is_single=True).run(message, **options)

    def stream(self, message: UserMessage, **options: Unpack[TurnOptions]) -> TurnStream:
        """The same as an iterator of events."""
        return self._open(is_single=True).stream(message, **options)

    async def arun(self, message: UserMessage, **options: Unpack[RunOptions]) -> TurnResult:
        """``run`` for asyncio."""
        return await self._open(is_single=True).arun(message, **options)

    def astream(self, message: UserMessage, **options: Unpack[TurnOptions]) -> AsyncTurnStream:
        """``stream`` for asyncio; to be called where an event loop runs."""
        return self._open(is_single=True).astream(message, **options)

    def _open(self, session_id: str | None = None, *, is_single: bool = False) -> AgentSession:
        self._turns.refuse_if_stopped()
        host = self._host
        session = host.new_session() if session_id is None else host.resume_session(session_id)
        if self._responder is not None:
            host.responders.attach(session.id, self._responder)
        return AgentSession(host, session, self._turns, self._failures, is_single=is_single)

    def close(self) -> None:
        """Interrupt the turns that run, end every session and release everything the agent holds."""
        self._turns.stop("the agent was closed")
        self._host.close()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    async def __aenter__(self) -> Agent:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        # Closing waits for exporters and background events; the event loop must not stand still for that.
        await asyncio.get_running_loop().run_in_executor(None, self.close)


class AgentSession:
    """One conversation. It is recorded turn by turn; one turn runs at a time."""

    def __init__(
        self,
        host: Host,
        session: Session,
        turns: RunningTurns,
        failures: CallbackFailures,
        *,
        is_single: bool = False,
    ) -> None:
        self._host = host
        self._session = session
        self._turns = turns
        self._failures = failures
        #: A conversation of one message, which ends with its turn.
        self._is_single = is_single
        # ``TextWithdrawn`` says to those who read events that text does not count.
        session.can_withdraw_text = True

    @property
    def id(self) -> str:
        """The id under which the conversation is recorded; ``Agent.session(id)`` opens it again."""
        return self._session.id

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as the model sees it: a copy."""
        return [dict(message) for message in self._session.messages()]

    def run(self, message: UserMessage, **options: Unpack[RunOptions]) -> TurnResult:
        """Answer a message. A turn that fails or is interrupted is a result too: see ``status`` and ``error``.

        ``OutputError`` when an ``output`` was asked for and the model does not give one. ``on_event`` is called in the
        thread of the turn; one that fails hears no more, and the turn continues.
        """
        with self._starting():
            heard = self._take_listener("run", options)
            run, turn = self._prepare(message, options)
        return run(heard or ignore_events, turn.interrupt)

    def stream(self, message: UserMessage, **options: Unpack[TurnOptions]) -> TurnStream:
        """Answer a message on a thread of its own; iterate over its events, then read ``result``."""
        with self._starting():
            arguments.check_options("stream", options, TurnOptions.__annotations__)
            return self._start(TurnStream, message, options)

    async def arun(self, message: UserMessage, **options: Unpack[RunOptions]) -> TurnResult:
        """``run`` for asyncio. Cancelling the task interrupts the turn, which still ends in order.

        ``on_event`` is called on the event loop.
        """
        with self._starting():
            heard = self._take_listener("arun", options)
        stream = self.astream(message, **options)
        if heard is None:
            return await stream.result()
        async with stream:
            async for event in stream:
                heard(event)
        return await stream.result()

    def astream(self, message: UserMessage, **options: Unpack[TurnOptions]) -> AsyncTurnStream:
        """``stream`` for asyncio; to be called where an event loop runs."""
        with self._starting():
            arguments.check_options("astream", options, TurnOptions.__annotations__)
            token = caller_loop.set(asyncio.get_running_loop())
            try:
                return self._start(AsyncTurnStream, message, options)
            finally:
                caller_loop.reset(token)

    def finish(self, *, interrupt: Interrupt | None = None) -> TurnResult | None:
        """Finish the last turn when it was cut off by a crash, interrupted or failed. None when it has its answer."""
        turn = self._turns.add(self.id, arguments.checked_interrupt(interrupt))
        with self._turns.entered(turn):
            result = self._session.finish_open_turn(interrupt=turn.interrupt)
        return result and self._explained(result, turn.interrupt.reason)

    def abandon(self, reason: str = "the program did not continue it") -> TurnResult | None:
        """Give up the last turn when a process that died left it: nothing of it runs any more. None without one."""
        arguments.check_texts(reason=reason)
        result = self._session.abandon_open_turn(reason)
        return result and self._explained(result, f"{GIVEN_UP}: {reason}")

    def steer(self, text: str) -> bool:
        """Say something to the agent during a turn; it is read before the next model call. False when no turn runs."""
        arguments.check_texts(text=text)
        return self._session.steer(text)

    def interrupt(self, reason: str = "interrupted") -> None:
        """Stop the turn that runs in this conversation on this agent. May be called from any thread."""
        arguments.check_texts(reason=reason)
        self._turns.interrupt(self.id, reason)

    def close(self) -> None:
        """End the conversation on this agent; its record stays."""
        self._session.close()
        self._host.responders.detach(self.id)

    # -- private ------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _starting(self) -> Generator[None]:
        """What fails here keeps the turn from running: a conversation of one message is over then."""
        try:
            yield
        except BaseException:
            self._end_single()
            raise

    def _take_listener(self, method: str, options: RunOptions) -> Listener | None:
        """What calls ``on_event``, which is taken out of the options; None without one."""
        arguments.check_options(method, options, RunOptions.__annotations__)
        given = options.pop("on_event", None)
        if given is None or given is ignore_events:
            return None
        arguments.check_listener(given)
        hears_no_more = "it hears no more of that turn"
        listeners = Listeners(f"session {self.id}", lambda error: self._failures.add("on_event", error, hears_no_more))
        listeners.all.append(given)
        return listeners

    def _start(self, make: Callable[[RunTurn, Workers, Interrupt], S], message: UserMessage, options: TurnOptions) -> S:
        run, turn = self._prepare(message, options)
        try:
            return make(run, self._host.workers, turn.interrupt)
        except BaseException:
            self._turns.remove(turn)
            raise

    def _prepare(self, message: UserMessage, options: TurnOptions) -> tuple[RunTurn, RunningTurn]:
        """What runs the turn, and the turn. Options that cannot be used raise here, in the caller's thread."""
        content = _with_images(_checked(message), arguments.checked_list("images", options.get("images", ())))
        if not content or (isinstance(content, str) and not content.strip()):
            raise HermesError("the message is empty")
        output, key = options.get("output"), options.get("request_key")
        if key is not None:
            arguments.check_texts(request_key=key)
        wanted = None if output is None else OutputFormat(output)
        turn = self._turns.add(self.id, arguments.checked_interrupt(options.get("interrupt")))

        def run(listener: Listener, interrupt: Interrupt) -> TurnResult:
            with self._turns.entered(turn):
                try:
                    if wanted is None:
                        result = self._session.run(content, listener=listener, interrupt=interrupt, request_key=key)
                    else:
                        result = run_structured(
                            self._session, content, wanted, listener=listener, interrupt=interrupt, request_key=key
                        )
                    return self._explained(result, interrupt.reason)
                finally:
                    self._end_single()

        return run, turn

    def _explained(self, result: TurnResult, reason: str) -> TurnResult:
        """The result, with the reason why it was interrupted."""
        if result.status != "interrupted" or result.error is not None:
            return result
        return replace(result, error=self._host.redactor.redact(reason or "interrupted"))

    def _end_single(self) -> None:
        if self._is_single:
            self.close()


def _endpoint_settings(provider: str, base_url: str, api_key: str) -> dict[str, str]:
    """The ``model`` section for an address or a key. A key alone is for the endpoint that is configured."""
    if not (provider or base_url):
        return {"api_key": api_key} if api_key else {}
    if not (base_url or api_key):
        return {}
    # An address that the home's file has for another provider must not receive the key.
    return {"provider": provider or "custom", "base_url": base_url, "api_key": api_key}


def _configuration(
    home: Path, given: Mapping[str, Any] | Config | None, overlay: dict[str, Any], environment: Mapping[str, str]
) -> tuple[Config, list[str]]:
    """The configuration, and warnings about it."""
    if isinstance(given, Config):
        if any(overlay.values()):
            raise HermesError("a Config object is used as it is; put base_url, api_key and system_prompt into it")
        return given, []
    loaded = load_config(home, environ=environment)
    if not given and not any(overlay.values()):
        return loaded.config, loaded.warnings
    known = {warning.partition(": ")[2] for warning in loaded.warnings}
    merged = _merge(_merge(loaded.raw, given or {}), overlay)
    # The file alone was found good, so what is wrong now came with the arguments.
    both = load_document(merged, Path("the arguments of hermes.Agent"), environment)
    own = [warning for warning in both.warnings if warning.partition(": ")[2] not in known]
    return both.config, [*loaded.warnings, *own]


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings, section by section; what ``over`` has wins."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _merge(cast("Mapping[str, Any]", below), cast("Mapping[str, Any]", value))
        elif not (isinstance(value, Mapping) and not value):
            merged[key] = value
    return merged


def _checked(message: object) -> UserMessage:
    """The message, when it is one: what is recorded must be readable in every later request."""
    if isinstance(message, str):
        return message
    parts = cast("list[object]", message) if isinstance(message, list) else [message]
    for part in parts:
        fields = cast("dict[str, object]", part) if isinstance(part, dict) else {}
        kind = fields.get("type")
        if not isinstance(kind, str) or (kind == "text" and not isinstance(fields.get("text"), str)):
            raise TypeError(f"a message is text, or a list of content parts such as {_A_PART}, got {part!r:.80}")
    return cast("list[dict[str, Any]]", parts)


def _with_images(message: UserMessage, images: Sequence[str | Path]) -> UserMessage:
    if not images:
        return message
    from hermes.agent.images.attachments import image_part  # few messages have any

    parts = [image_part(Path(path), label="images") for path in images]
    text: list[dict[str, Any]] = [{"type": "text", "text": message}] if isinstance(message, str) else message
    return [*text, *parts]
