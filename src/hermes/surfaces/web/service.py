"""The page without HTTP: one journal, one redactor, one watcher, and a chat where there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from hermes.base.config.secrets import home_redactor
from hermes.base.sanitize import Redactor
from hermes.journal.runner import Runner
from hermes.journal.store.connection import JournalConnection
from hermes.journal.store.port import Store
from hermes.surfaces.web.live import JournalWatcher
from hermes.trace.clean import Cleaner

if TYPE_CHECKING:
    from hermes.surfaces.web.chat import PageChat

P = ParamSpec("P")
T = TypeVar("T")


class PageService:
    """What the page is made of. Thread-safe."""

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

    def read(self, query: Callable[Concatenate[JournalConnection, P], T], *args: P.args, **options: P.kwargs) -> T:
        """What a query finds in the journal."""
        return self.store.read(lambda connection: query(connection, *args, **options))

    def close(self) -> None:
        """End live updates and the chat."""
        self.watcher.close()
        if self.chat is not None:
            self.chat.close()
