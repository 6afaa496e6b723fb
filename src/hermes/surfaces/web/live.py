"""Live updates: one thread watches the journal for all open pages, and each gets what changed as server-sent events.

Nothing is watched while no page is open. A page that is too slow is disconnected; it connects again by itself, says the
last number it has seen, and gets everything after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time

import msgspec

from hermes.base.errors import HermesError, JournalTooNew, SessionNotFound
from hermes.journal.events import last_before, stored_event
from hermes.journal.history.lists import count_sessions, open_sessions, recent_sessions
from hermes.journal.history.rows import session_facts
from hermes.journal.questions import count_pending, question_states
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.surfaces.web.queries.sessions import MOST_LISTED, IsAlive, SessionLine, lines_of
from hermes.surfaces.web.queries.timeline import TimelineRows, family_of, session_rows
from hermes.trace.clean import Cleaner

log = logging.getLogger("hermes.web")

#: The topic of the list of sessions; that of a session is its id.
HOME = ""

#: Seconds between two looks, after a failed one, and between looks at which processes live.
_LOOK_EVERY = 0.025
_LOOK_AFTER_FAILURE = 1.0
_LOOK_AT_PROCESSES = 1.0
#: Messages that wait for a slow page before it is disconnected.
_MOST_WAITING = 1_000

_encode = msgspec.json.Encoder().encode


def message(name: str, data: object, number: object = "") -> bytes:
    """One server-sent event. ``number`` is the one to resume from."""
    head = f"event: {name}\n" + (f"id: {number}\n" if number != "" else "")
    return head.encode() + b"data: " + _encode(data) + b"\n\n"


class Subscription:
    """The stream of one page. Filled by any thread, read on the loop that it was made on."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._loop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._arrived = asyncio.Event()
        self._is_closed = False

    def put(self, data: bytes) -> None:
        """Add messages, from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._put, data)

    def close(self) -> None:
        """End the stream, from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._close)

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        if len(self._waiting) > _MOST_WAITING:
            self._waiting.clear()
            self._close()
        self._arrived.set()

    def _close(self) -> None:
        self._is_closed = True
        self._arrived.set()

    async def get(self, timeout: float) -> bytes | None:
        """What has arrived; empty when nothing did in that time, None at the end."""
        if not self._waiting and not self._is_closed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), timeout)
        self._arrived.clear()
        data, self._waiting = b"".join(self._waiting), []
        return None if self._is_closed and not data else data


class _Topic(msgspec.Struct):
    """What the open pages of one topic have been sent."""

    pages: set[Subscription] = set()
    #: The number of the last event of each session of the family.
    heads: dict[str, int] = {}
    #: The questions of the family: session, question and state.
    questions: set[tuple[str, str, str]] = set()
    lines: dict[str, SessionLine] = {}
    since: float = 0.0
    pending: int = -1
    #: How many sessions there are: fewer means that some were deleted.
    count: int = 0

    def send(self, data: bytes) -> None:
        for page in self.pages:
            page.put(data)


class JournalWatcher:
    """Watches the journal while pages are open. Thread-safe."""

    def __init__(self, store: Store, is_alive: IsAlive, clean: Cleaner) -> None:
        self._store = store
        self._is_alive = is_alive
        self._clean = clean
        self._topics: dict[str, _Topic] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._mark: object = None

    # -- pages --------------------------------------------------------------------------------------------------

    def subscribe(self, page: Subscription, after: float) -> None:
        """Send a page everything that comes after that number of its topic, from now on."""
        with self._changed:
            if self._is_closed:
                page.close()
                return
            topic = self._topics.setdefault(page.topic, _Topic())
            try:
                self._store.read(lambda connection: self._begin(connection, topic, page, after))
            except SessionNotFound:
                page.put(message("gone", {}))
                page.close()
            except HermesError as error:
                page.put(message("problem", {"error": str(error)}))
            topic.pages.add(page)
            self.wake()

    def unsubscribe(self, page: Subscription) -> None:
        """Send a page nothing more."""
        with self._changed:
            topic = self._topics.get(page.topic)
            if topic is not None:
                topic.pages.discard(page)
                if not topic.pages:
                    del self._topics[page.topic]

    def publish(self, topic: str, name: str, data: object) -> None:
        """Send something that is not in the journal, such as text that still streams, to the pages of a topic."""
        found = self._topics.get(topic)
        if found is not None:
            sent = message(name, data)
            for page in tuple(found.pages):
                page.put(sent)

    @property
    def open_pages(self) -> int:
        """How many streams are open."""
        return sum(len(topic.pages) for topic in self._topics.values())

    def wake(self) -> None:
        """Begin to watch, if that is not being done."""
        with self._changed:
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._watch, name="hermes-web", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def disconnect(self) -> None:
        """End every stream. Pages connect again by themselves, and get what they missed."""
        with self._changed:
            for topic in self._topics.values():
                for page in topic.pages:
                    page.close()

    def close(self) -> None:
        """End every stream and the thread."""
        with self._changed:
            self._is_closed = True
            self.disconnect()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # -- watching -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        looked_at_processes, pause = 0.0, _LOOK_EVERY
        while True:
            with self._changed:
                while not self._is_closed and not self._topics:
                    self._changed.wait()
                if self._is_closed:
                    return
            try:
                mark, now = self._store.change_mark(), time.monotonic()
                if mark != self._mark or now - looked_at_processes > _LOOK_AT_PROCESSES:
                    self._mark, looked_at_processes = mark, now
                    self._look()
                pause = _LOOK_EVERY
            except HermesError as error:
                pause = _LOOK_AFTER_FAILURE
                self._report(error)
            except Exception:
                pause = _LOOK_AFTER_FAILURE
                log.exception("the journal could not be watched; trying again")
            time.sleep(pause)

    def _report(self, error: HermesError) -> None:
        with self._changed:
            for topic in self._topics.values():
                topic.send(message("problem", {"error": str(error)}))
            if isinstance(error, JournalTooNew):
                log.warning("%s", error)

    def _look(self) -> None:
        with self._changed:
            self._store.read(self._look_at_topics)

    def _look_at_topics(self, connection: JournalConnection) -> None:
        for name, topic in list(self._topics.items()):
            if name == HOME:
                self._look_at_home(connection, topic)
                continue
            try:
                self._look_at_session(connection, name, topic)
            except SessionNotFound:
                topic.send(message("gone", {}))
                for page in topic.pages:
                    page.close()
                del self._topics[name]

    # -- the list -----------------------------------------------------------------------------------------------

    def _look_at_home(self, connection: JournalConnection, topic: _Topic) -> None:
        running = {line.id for line in topic.lines.values() if line.state in ("running", "waiting", "queued")}
        ids = {*open_sessions(connection), *recent_sessions(connection, topic.since, MOST_LISTED), *running}
        lines = lines_of(connection, ids, self._is_alive, self._clean)
        changed = [line for line in lines if topic.lines.get(line.id) != line]
        gone = sorted(running - {line.id for line in lines})
        topic.lines = {line.id: line for line in lines}
        topic.since = max((topic.since, *(line.updated for line in lines)))
        pending, count = count_pending(connection), count_sessions(connection)
        is_shorter = count < topic.count
        if changed or gone or is_shorter or pending != topic.pending:
            update = {"sessions": changed, "pending": pending, "gone": gone, "reload": is_shorter}
            topic.send(message("sessions", update, topic.since))
        topic.pending, topic.count = pending, count

    # -- a session ----------------------------------------------------------------------------------------------

    def _look_at_session(self, connection: JournalConnection, session_id: str, topic: _Topic) -> None:
        before = topic.heads, topic.questions, topic.lines
        self._note_family(connection, session_id, topic)
        heads, questions, lines = before
        asked = {member for member, one, state in topic.questions if (member, one, state) not in questions}
        rows = [
            session_rows(connection, member, self._clean, heads.get(member, 0))
            for member, head in topic.heads.items()
            if head > heads.get(member, 0) or member in asked or member not in heads
        ]
        if rows or lines != topic.lines:
            update = {"session": topic.lines[session_id], "rows": rows}
            topic.send(message("rows", update, topic.heads[session_id]))

    def _note_family(self, connection: JournalConnection, session_id: str, topic: _Topic) -> None:
        """Note the position of a session and of all it delegated to, parents first."""
        family = family_of(connection, session_id)
        heads = {session.id: session.head_seq for session in session_facts(connection, family)}
        topic.heads = {member: heads[member] for member in family}
        topic.questions = set(question_states(connection, family))
        topic.lines = {session_id: lines_of(connection, [session_id], self._is_alive, self._clean)[0]}

    # -- a new page ---------------------------------------------------------------------------------------------

    def _begin(self, connection: JournalConnection, topic: _Topic, page: Subscription, after: float) -> None:
        """Bring a new page up to date, and note the position of its topic."""
        if page.topic == HOME:
            ids = (
                {*open_sessions(connection), *recent_sessions(connection, after, MOST_LISTED)} if after else set[str]()
            )
            lines = lines_of(connection, ids, self._is_alive, self._clean)
            pending = count_pending(connection)
            if not topic.pages:
                topic.since, topic.pending = after or time.time(), pending
                topic.count = count_sessions(connection)
                topic.lines = {line.id: line for line in lines}
            page.put(message("sessions", {"sessions": lines, "pending": pending, "gone": []}, topic.since))
            return
        now = _Topic() if topic.pages else topic
        self._note_family(connection, page.topic, now)
        since = _time_of(connection, page.topic, int(after))
        rows: list[TimelineRows] = []
        for member, head in now.heads.items():
            known = int(after) if member == page.topic else last_before(connection, member, since)
            if head > known:
                rows.append(session_rows(connection, member, self._clean, known))
        page.put(message("rows", {"session": now.lines[page.topic], "rows": rows}, now.heads[page.topic]))


def _time_of(connection: JournalConnection, session_id: str, seq: int) -> float:
    """When an event was recorded. Children have numbers of their own: what they did since is found by time."""
    event = stored_event(connection, session_id, seq)
    return 0.0 if event is None else event.at - 1.0
