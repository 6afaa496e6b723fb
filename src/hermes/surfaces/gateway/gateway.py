"""The gateway: platforms on one event loop, turns on the threads of the dispatcher, everything accepted on disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from threading import Lock
from typing import Any, Protocol, TypeVar, cast

import msgspec

from hermes.base.errors import HermesError, SessionNotFound
from hermes.base.http.threads import LoopThreads
from hermes.base.http_server.rate_limits import RateLimiter
from hermes.base.http_server.stopping import unless_at_once, waiting_text
from hermes.base.scope import new_id, new_session_id
from hermes.contract.events import GatewayMessage, SessionReset
from hermes.host import Host
from hermes.journal.leases import release_lease
from hermes.service.dispatch.choose import make_dispatcher
from hermes.service.dispatch.port import TurnEntry
from hermes.service.live.turns import LiveTurns
from hermes.surfaces.gateway.access import Access, Sender, conversation_principal, session_key, workspace_of
from hermes.surfaces.gateway.adapter import (
    BasePlatformAdapter,
    MessageEvent,
    Platform,
    PlatformEntry,
    ProcessingOutcome,
    SessionSource,
    adapter_config,
    entry_of,
)
from hermes.surfaces.gateway.chats.chat import GatewayChat
from hermes.surfaces.gateway.chats.questions import TurnVariables, chat_entry, outgoing
from hermes.surfaces.gateway.chats.work import ChatWork
from hermes.surfaces.gateway.deliveries import Deliveries
from hermes.surfaces.gateway.platforms.supervision import FIRST_PAUSE, LoopWatchdog, PlatformStatus, PlatformSupervisor
from hermes.surfaces.gateway.session_store import SessionStore
from hermes.surfaces.gateway.store.attachments import store_files
from hermes.surfaces.gateway.store.inbox import ChatRow, Inbox, IncomingMessage
from hermes.surfaces.gateway.store.outbox import Outbox
from hermes.surfaces.gateway.store.users import CODE_SECONDS, REQUEST_SECONDS, GatewayUsers

log = logging.getLogger("hermes.gateway")

T = TypeVar("T")

_THREADS = 8
#: Conversations whose row is kept in memory.
_MAX_ROWS = 5_000
#: How often idle conversations are looked for.
_TICK_SECONDS = 1.0
_IDLE_CHECK_SECONDS = 30.0
#: Days that answered messages are kept, so that a delivery that is repeated is recognised.
_KEEP_DAYS = 7
_STOP_SECONDS, _SECONDS_TO_ANSWER = 10.0, 1.0  # the second for services, whose clients wait, in any case
#: Most answers to refused messages of one chat, so that a flood of messages makes no flood of notices.
_NOTICES_PER_MINUTE = 3


class GatewayService(Protocol):
    """A part that runs beside the platforms, such as an HTTP server or the schedules."""

    async def run(self, gateway: Gateway) -> None:
        """Run until cancelled."""
        ...


class Gateway:
    """Runs the platforms of one host. Methods are for the loop's thread unless they say that they block."""

    def __init__(
        self,
        host: Host,
        platforms: Sequence[str] = (),
        *,
        services: Sequence[GatewayService] = (),
        first_pause: float = FIRST_PAUSE,
    ) -> None:
        self.host = host
        self.config = host.config.gateway
        self.inbox = Inbox(host.store)
        self.outbox = Outbox(host.store)
        self.users = GatewayUsers(host.store)
        self.entries: dict[str, PlatformEntry] = {}
        for offer in host.plugins.offers("platform"):
            entry = entry_of(offer)
            self.entries[entry.name] = entry
        self.platforms = list(platforms)
        #: Why further platforms of the configuration cannot be run, by name.
        self.unusable: dict[str, str] = {}
        self.access = Access(self.config, self.users, self.entries)
        self.session_store = SessionStore(self.inbox, self.open_chat)
        #: The adapters that are connected.
        self.adapters: dict[str, BasePlatformAdapter] = {}
        #: What adapters set around the turns that run, by request key.
        self.turn_variables: TurnVariables = {}
        chats = chat_entry(host, self.turn_variables)
        #: What each surface does around its turns; services add theirs before the gateway starts.
        self.turn_entries: dict[str, TurnEntry] = dict.fromkeys(self.platforms, chats)
        self.dispatcher = make_dispatcher(host, entries=self.turn_entries, platforms=self.turn_entries.keys())
        #: The turns of chats.
        self.turns = LiveTurns(host, *self.platforms, asks_one=True)
        #: Held while a message is handled that may have ended an earlier process.
        self.suspects = asyncio.Lock()
        self._services = services
        self._first_pause = first_pause
        self._supervisors: dict[str, PlatformSupervisor] = {}
        self._chats: dict[str, GatewayChat] = {}
        self._rows: OrderedDict[str, ChatRow] = OrderedDict()
        self._rows_lock = Lock()
        self._limiter = RateLimiter(self.config.max_messages_per_minute)
        self._notices = RateLimiter(_NOTICES_PER_MINUTE)
        self._threads = LoopThreads(_THREADS, "hermes-gateway")
        #: The last message of each chat that is being accepted.
        self._arriving: dict[str, asyncio.Future[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_stopping = False
        #: Called when the state of a platform has changed.
        self.on_status: Callable[[], None] | None = None
        self.started_at = time.time()
        host.plugins.gateway = self

    # -- life ---------------------------------------------------------------------------------------------------

    async def run(
        self,
        stop: asyncio.Event,
        *,
        started: Callable[[], None] | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Run until ``stop`` is set. ``report`` is given lines for the owner."""
        self._loop = asyncio.get_running_loop()
        self.deliveries = Deliveries(self)
        left = await self.blocking(self._recover)
        await self.blocking(self.dispatcher.start)
        await self.blocking(self.turns.start, self.dispatcher)
        for name in self.platforms:
            entry, settings = self.entries[name], self.config.platforms[name]
            config = adapter_config(name, settings)
            supervisor = PlatformSupervisor(self, entry, config, first_pause=self._first_pause)
            self._supervisors[name] = supervisor
            self.spawn(supervisor.run())
        self.spawn(self.deliveries.run())
        self.spawn(self._tick())
        for work in left:
            self._chat(work).put(work)
        watchdog = LoopWatchdog(self._loop, lambda: list(self._supervisors.values()))
        for service in self._services:
            self.spawn(service.run(self))
        self.status_changed()
        for tell in self.host.plugins.gateway_starts:
            tell(self.platforms)
        if started is not None:
            started()
        try:
            await stop.wait()
            if report is not None and self.dispatcher.running:
                report(waiting_text(self.dispatcher.running, _STOP_SECONDS))
        finally:
            await self._stop(stop)
            watchdog.stop()

    async def _stop(self, stop: asyncio.Event) -> None:
        """Disconnect, let running turns end for a moment, and leave the rest to the next start."""
        self.is_stopping = True
        await unless_at_once(stop, self.blocking(self.dispatcher.release, _STOP_SECONDS))
        with contextlib.suppress(TimeoutError):
            await unless_at_once(stop, asyncio.wait_for(self._drain(), _STOP_SECONDS))
        tasks = [*self._tasks, *(task for chat in self._chats.values() for task in chat.tasks)]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_SECONDS_TO_ANSWER)
            await unless_at_once(stop, asyncio.wait(tasks, timeout=_STOP_SECONDS))
        self.turns.close()
        self.status_changed()
        self._threads.close()

    async def _drain(self) -> None:
        """Send the answers of the turns that have just ended."""
        while any(chat.is_finishing for chat in self._chats.values()) or (self.adapters and self.deliveries.is_busy):
            await asyncio.sleep(0.02)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run a coroutine beside the others."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("a task of the gateway failed", exc_info=error)

    async def blocking(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        """Run blocking work on a thread."""
        return await self._threads.start(work, *args, **options)

    def call_soon(self, work: Callable[[], object]) -> None:
        """Run something on the loop. From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(work)

    # -- platforms ----------------------------------------------------------------------------------------------

    @property
    def statuses(self) -> list[PlatformStatus]:
        """The state of every platform, those that cannot be run among them."""
        unusable = [PlatformStatus(name, name, "failed", why) for name, why in self.unusable.items()]
        return [*(supervisor.status for supervisor in self._supervisors.values()), *unusable]

    def platform_connected(self, name: str, adapter: BasePlatformAdapter) -> None:
        """An adapter is connected: what waits for it is sent."""
        self.adapters[Platform(name)] = adapter
        self.deliveries.connected(name)

    def platform_lost(self, name: str) -> None:
        """An adapter is not connected any more."""
        self.adapters.pop(Platform(name), None)

    def status_changed(self) -> None:
        """Report the state of the platforms."""
        if self.on_status is not None:
            self.on_status()

    def message_limit(self, platform: str) -> int:
        """Most characters of one message; 0 means no limit."""
        entry, adapter = self.entries.get(platform), self.adapters.get(platform)
        limit: object = (entry.max_message_length if entry else 0) or getattr(adapter, "MAX_MESSAGE_LENGTH", 0)
        return limit if isinstance(limit, int) and limit > 0 else 0

    # -- arrival ------------------------------------------------------------------------------------------------

    async def receive(self, event: MessageEvent) -> str | None:
        """Take a message of an adapter. Once this returns it is on disk, or was refused."""
        if self.is_stopping:
            raise HermesError("the gateway is stopping; the platform has to deliver this message again")
        if event.files or event.media_urls:
            await self._store_files(event)
        source = event.source
        if source is None or not source.chat_id:
            log.warning("a message without a chat was dropped")
            return None
        key, mine = session_key(self.config, source), asyncio.get_running_loop().create_future()
        before, self._arriving[key] = self._arriving.get(key), mine
        try:
            if before is not None:  # one at a time, so that a chat keeps its order
                await asyncio.wait([before])
            accepted = self._threads.start(self._accept, event, source)
            accepted.add_done_callback(self._accepted)
            await asyncio.shield(accepted)  # an adapter that gives up does not hold up what is stored
        finally:
            mine.set_result(None)
            if self._arriving.get(key) is mine:
                del self._arriving[key]
        return None

    async def _store_files(self, event: MessageEvent) -> None:
        """Store the files of a message, if its sender is let in: they must be on disk before it is acknowledged."""
        source = event.source
        sender = None if source is None else await self.blocking(self.access.sender, source, is_trusted=event.internal)
        if source is not None and sender is not None:
            principal = conversation_principal(self.config, source, sender)
            workspace = await self.blocking(workspace_of, self.host, principal)
            await store_files(event, workspace.resolve(), self.config, self.blocking)

    def _accepted(self, accepted: asyncio.Future[ChatWork | None]) -> None:
        if accepted.cancelled() or accepted.exception() is not None:
            return  # the adapter has the exception
        work = accepted.result()
        if work is not None:
            self.deliveries.heard_from(work.source.platform, work.source.chat_id)
            self._chat(work).put(work)
        else:
            self.deliveries.wake()  # there may be a notice to send

    def _accept(self, event: MessageEvent, source: SessionSource) -> ChatWork | None:
        """Check and store a message. None when it is refused, or was there before. Blocks."""
        sender = self.access.sender(source, is_trusted=event.internal)
        if sender is None:
            self._hear_stranger(event, source)
            return None
        notice = "" if event.internal else self._refusal(event, source, sender)
        if notice:
            if not self._notices.retry_after(f"{source.platform}:{source.chat_id}"):
                self.outbox.add(outgoing(f"notice:{new_id()}", source, notice))
            return None
        # The model would not see them, and the inbox is part of the journal.
        event.text = self.host.redactor.mask_known(event.text or "")
        event.reply_to_text = event.reply_to_text and self.host.redactor.mask_known(event.reply_to_text)
        row, is_new = self._open_chat(source, sender)
        message = self.inbox.accept(row, event.message_id or f"made:{new_id()}", event, is_new=is_new)
        if message is None:
            return None
        return ChatWork(message, event, source, sender, self._remember(row, is_new=is_new))

    def _refusal(self, event: MessageEvent, source: SessionSource, sender: Sender) -> str:
        """Why a message is not accepted; empty when it is."""
        seconds = self._limiter.retry_after(f"{sender.platform}:{sender.user_id}")
        if seconds:
            return (
                f"Too many messages: more than {self.config.max_messages_per_minute} a minute are not read. "
                f"Please wait {math.ceil(seconds)} s and send the last ones again."
            )
        if len(event.text or "") > self.config.max_message_chars:
            return f"This message is too long: at most {self.config.max_message_chars:,} characters."
        chat = self._chats.get(session_key(self.config, source))
        if chat is not None and len(chat) >= self.config.max_queued:
            return f"{len(chat)} messages of this chat wait already. Please send it again later."
        return ""

    def _hear_stranger(self, event: MessageEvent, source: SessionSource) -> None:
        """Show plugins a message of an unknown user, as many a minute as of a known one, and answer it."""
        user = f"{source.platform}:{source.user_id or source.chat_id}"
        is_shown = self.host.hooks.pre_gateway_dispatch is not None and not self._limiter.retry_after(user)
        if is_shown:
            event.text = self.host.redactor.mask_known(event.text or "")
        if not is_shown or self.pass_hooks(event, is_known=False):
            self._answer_stranger(source)

    def _answer_stranger(self, source: SessionSource) -> None:
        """Offer a pairing code to an unknown user in a direct chat; others get no answer."""
        log.info("%s: a message of user %s was refused: not let in", source.platform, source.user_id or source.chat_id)
        if not self.config.pairing or source.chat_type != "dm" or source.is_bot:
            return
        platform, user = str(source.platform), source.user_id or source.chat_id
        code = self.users.request(platform, user, source.user_name or user, source.chat_id)
        if code is not None:
            text = (
                f"I do not know you yet. Give this code to the owner of this agent: {code}\n"
                f"The owner lets you in with: hermes gateway pair approve {code}\n"
                f"The code is valid for {CODE_SECONDS / 60:.0f} minutes, or {REQUEST_SECONDS / 60:.0f} when many ask."
            )
            self.outbox.add(outgoing(f"notice:{new_id()}", source, text))

    def open_chat(self, source: SessionSource) -> ChatRow:
        """The conversation that a source belongs to, with a session. It is stored with its next message. Blocks."""
        sender = self.access.sender(source, is_trusted=True)
        assert sender is not None
        return self._open_chat(source, sender)[0]

    def _open_chat(self, source: SessionSource, sender: Sender) -> tuple[ChatRow, bool]:
        """The conversation, and whether it has a new session."""
        key = session_key(self.config, source)
        known = self._rows.get(key) or self.inbox.chat(key)
        principal = conversation_principal(self.config, source, sender)
        is_new = known is None or known.principal != principal or known.expired_at > 0
        session_id = _new_session_id() if known is None or is_new else known.session_id
        if known is not None and known.expired_at and known.principal == principal:
            self._report_reset(str(source.platform), known.session_id, session_id, "session_expired")
        encoded = msgspec.json.encode(source.to_dict()).decode()
        return ChatRow(key, str(source.platform), principal, session_id, encoded, time.time()), is_new

    def _remember(self, row: ChatRow, *, is_new: bool) -> ChatRow:
        """Keep the row of a conversation in memory. Unless it has a new session, the known one stays."""
        with self._rows_lock:
            known = self._rows.get(row.key)
            if known is not None and not is_new:
                row = msgspec.structs.replace(known, source=row.source, last_at=row.last_at)
            self._rows[row.key] = row
            self._rows.move_to_end(row.key)
            if len(self._rows) > _MAX_ROWS:
                self._rows.popitem(last=False)
            chat = self._chats.get(row.key)
            if chat is not None:
                chat.row = row
        return row

    def _chat(self, work: ChatWork) -> GatewayChat:
        key = work.message.chat
        chat = self._chats.get(key)
        if chat is None:
            chat = self._chats[key] = GatewayChat(self, self._rows.get(key) or work.row)
        return chat

    def chat_idle(self, key: str) -> None:
        """A chat has nothing to do: it is made again for its next message."""
        chat = self._chats.get(key)
        if chat is not None and chat.is_idle and not len(chat):
            del self._chats[key]

    def accept_text(self, work: ChatWork, text: str) -> ChatWork | None:
        """Accept a message that a command of another one asks for. Blocks."""
        made = self._accept(MessageEvent(text, source=work.source, internal=True), work.source)
        if made is not None:
            made.sender = work.sender
        return made

    def pass_hooks(self, event: MessageEvent, *, is_known: bool = True) -> bool:
        """Let plugins skip or rewrite a message. False when it is skipped. Blocks.

        ``is_known``: its sender was let in. A plugin cannot do that: what it answers comes after the check.
        """
        emit = self.host.hooks.pre_gateway_dispatch
        if emit is None:
            return True
        arrived = GatewayMessage(
            event=event,
            gateway=self,
            session_store=self.session_store,
            sender_state="known" if is_known else "unknown",
            pairing=self.config.pairing,
        )
        for answer in emit(arrived):
            if not isinstance(answer.value, dict):
                continue
            value = cast("dict[str, Any]", answer.value)
            action = value.get("action")
            if action == "skip":
                log.info("plugin %r skipped a message: %s", answer.plugin, value.get("reason", ""))
                return False
            if action == "rewrite" and isinstance(value.get("text"), str):
                event.text = value["text"]
                return True
            if action == "allow":
                return True
        return True

    # -- turns --------------------------------------------------------------------------------------------------

    async def run_turn(self, event: MessageEvent, key: str) -> ProcessingOutcome:
        """Run the turn that the chat of an adapter has come to; the adapter is with it until its answer is sent."""
        chat = self._chats.get(key)
        work = None if chat is None else chat.current
        if chat is None or work is None or work.event is not event or work.is_done:
            log.warning("an adapter wanted to run a turn out of order; it is ignored")
            return ProcessingOutcome.CANCELLED
        before, now, request_key = work.context, copy_context(), work.message.request_key
        changed = {one: now[one] for one in now if one not in before or before[one] is not now[one]}
        self.turn_variables[request_key] = changed
        try:
            return await chat.run_turn(work, waits_for_sending=True)
        finally:
            self.turn_variables.pop(request_key, None)

    def interrupt(self, key: str) -> None:
        """Stop the turn that runs in a conversation."""
        chat = self._chats.get(key)
        if chat is not None:
            self.spawn(chat.stop("interrupted by the platform"))

    def _session_key_for_source(self, source: SessionSource) -> str:
        return session_key(self.config, source)

    # -- sessions -----------------------------------------------------------------------------------------------

    def change_session(self, row: ChatRow, session_id: str) -> None:
        """A command moved a chat to another session. Blocks."""
        row = msgspec.structs.replace(row, session_id=session_id, expired_at=0.0)
        self.inbox.save_chat(row)
        self._remember(row, is_new=True)

    def _report_reset(self, platform: str, old: str, new: str, reason: str) -> None:
        emit = self.host.hooks.on_session_reset
        if emit is not None:
            emit(SessionReset(session_id=new, platform=platform, reason=reason, old_session_id=old, new_session_id=new))

    def expire_idle(self) -> int:
        """End the sessions of conversations that were idle for too long; how many those are. Blocks."""
        ended = 0
        for row in self.inbox.idle_chats(time.time() - self.config.idle_timeout):
            if row.key in self._chats or not self.inbox.expire_chat(row):
                continue
            self._rows.pop(row.key, None)
            ended += 1
            try:
                self.host.resume_session(row.session_id, platform=row.platform).close("session_expired")
                release_lease(self.host.store, self.host.runner, row.session_id)
            except SessionNotFound:
                pass  # no message of it was answered
            except HermesError as error:
                log.warning("the idle session %s could not be ended: %s", row.session_id, error)
        return ended

    # -- questions ----------------------------------------------------------------------------------------------

    def owner_chat(self) -> SessionSource | None:
        """Where the owner is asked: the home channel of a platform, or the owner's own chat. Blocks."""
        for name in self.platforms:
            home = self.config.platforms[name].home_channel
            if home:
                return SessionSource(Platform(name), home)
        for row in self.inbox.chats():
            if not row.principal and row.platform in self.platforms:
                return row.read_source()
        log.warning("an approval waits, and no chat of the owner is known: see 'hermes approvals list'")
        return None

    async def _tick(self) -> None:
        """Look for idle conversations and what is too old."""
        next_idle = 0.0
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            try:
                if time.monotonic() >= next_idle:
                    next_idle = time.monotonic() + min(_IDLE_CHECK_SECONDS, self.config.idle_timeout)
                    await self.blocking(self.expire_idle)
                    await self.blocking(self.inbox.prune, time.time() - _KEEP_DAYS * 86_400)
            except HermesError as error:
                log.warning("the gateway cannot read its journal: %s", error)

    # -- after a crash ------------------------------------------------------------------------------------------

    def _recover(self) -> list[ChatWork]:
        """What an earlier process left, in the order in which it arrived. Blocks."""
        unknown = self.outbox.settle_claims()
        if unknown:
            log.warning("%d messages were being sent when the gateway ended: see 'hermes gateway status'", unknown)
        left = [message for message in self.inbox.open_messages() if message.platform in self.platforms]
        turns = self.inbox.turns_of(left)
        works: list[ChatWork] = []
        for message in left:
            work = self._left_work(message)
            if work is None:
                self.inbox.finish(message.number, state="dead", error="its sender is not let in any more")
                continue
            work.turn_id = turns.get(message.number, ("", ""))[1]
            works.append(work)
        return works

    def _left_work(self, message: IncomingMessage) -> ChatWork | None:
        event = message.read_event()
        source, row = event.source, self._rows.get(message.chat) or self.inbox.chat(message.chat)
        sender = None if source is None else self.access.sender(source, is_trusted=event.internal)
        if source is None or sender is None or row is None:
            return None
        return ChatWork(message, event, source, sender, self._remember(row, is_new=True))


def _new_session_id() -> str:
    """An id that is unique also among many that are made in the same second."""
    return f"{new_session_id()}{os.urandom(4).hex()}"
