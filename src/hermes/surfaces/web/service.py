"""The data of the page without HTTP: one journal, one redactor, one watcher, and a chat where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.base.config.secrets import home_redactor
from hermes.base.errors import SessionNotFound
from hermes.base.sanitize import Redactor
from hermes.journal.bodies import message_text
from hermes.journal.runner import Runner
from hermes.journal.sessions import Sessions
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.surfaces.web.live import JournalWatcher
from hermes.surfaces.web.queries.detail import EventDetail, event_detail, event_list
from hermes.surfaces.web.queries.sessions import SessionFilter, SessionLine, lines_of, session_lines
from hermes.surfaces.web.queries.timeline import TimelineRows, family_of, session_rows
from hermes.trace.clean import Cleaner

if TYPE_CHECKING:
    from hermes.surfaces.web.chat import PageChat

#: Events of a session in the document itself, for browsers without JavaScript.
_EXCERPT = 80
_MOST_MESSAGES = 200
_LONGEST_MESSAGE = 20_000


class PageService:
    """The data of the page. Thread-safe."""

    def __init__(
        self, store: Store, runner: Runner, home: Path, redactor: Redactor | None = None, chat: PageChat | None = None
    ) -> None:
        self.store = store
        self.home = home
        self.clean = Cleaner(redactor or home_redactor(home))
        self.is_alive = runner.is_alive
        self.watcher = JournalWatcher(store, self.is_alive, self.clean)
        self.chat: PageChat | None = None
        if chat is not None:
            self.use_chat(chat)

    def use_chat(self, chat: PageChat) -> None:
        """Send messages to the agent from now on."""
        chat.use(self.watcher)
        self.chat = chat

    def sessions(self, wanted: SessionFilter) -> list[SessionLine]:
        """A part of the list."""
        return self.store.read(lambda connection: session_lines(connection, wanted, self.is_alive, self.clean))

    def session(self, session_id: str) -> dict[str, Any]:
        """A session with the rows of its family. Raises ``SessionNotFound``."""

        def read(connection: JournalConnection) -> tuple[SessionLine, list[TimelineRows]]:
            family = family_of(connection, session_id)
            line = lines_of(connection, [session_id], self.is_alive, self.clean)[0]
            return line, [session_rows(connection, member, self.clean) for member in family]

        line, rows = self.store.read(read)
        return {"session": line, "rows": rows}

    def excerpt(self, session_id: str) -> dict[str, Any]:
        """A session with its last rows, without its children. Raises ``SessionNotFound``."""

        def read(connection: JournalConnection) -> dict[str, Any]:
            found = lines_of(connection, [session_id], self.is_alive, self.clean)
            if not found:
                raise SessionNotFound(f"no session {session_id!r}; it may have been deleted")
            after = max(0, found[0].head - _EXCERPT)
            return {"session": found[0], "rows": [session_rows(connection, session_id, self.clean, after)]}

        return self.store.read(read)

    def events(self, session_id: str, after: int) -> list[tuple[int, str, str, float]]:
        """Number, kind, key and time of every event above a number."""
        return self.store.read(lambda connection: event_list(connection, session_id, after))

    def event(self, session_id: str, seq: int, *, whole: bool = False) -> EventDetail:
        """One event."""
        return self.store.read(lambda connection: event_detail(connection, session_id, seq, self.clean, whole=whole))

    def messages(self, session_id: str) -> list[dict[str, str]]:
        """The last messages of the user and the agent, as text."""
        found = Sessions(self.store).messages(session_id)
        texts = [(message["role"], message_text(message)) for message in found]
        said = [(role, text) for role, text in texts if role in ("user", "assistant") and text.strip()]
        return [
            {"role": role, "text": self.clean.text(text[:_LONGEST_MESSAGE])} for role, text in said[-_MOST_MESSAGES:]
        ]

    def close(self) -> None:
        """End live updates and the chat."""
        self.watcher.close()
        if self.chat is not None:
            self.chat.close()
