"""Conversation: the state that a surface shares with the commands typed on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.agent.session import Session
from hermes.base.errors import HermesError, SessionNotFound
from hermes.contract.events import SessionReset
from hermes.host import Host
from hermes.journal.leases import release_lease
from hermes.surfaces.commands.surface import Surface, TerminalScreen

if TYPE_CHECKING:
    from hermes.contract.commands import SlashCommand


class Conversation:
    """The session a user is in. Commands may switch to another one."""

    def __init__(
        self, host: Host, session: Session | None, surface: Surface, *, opened: Callable[[], Session] | None = None
    ) -> None:
        """Without a session, the one that ``opened`` gives, else a new one, is opened when it is first needed."""
        self.host = host
        self.surface = surface
        self._session = session
        self._opened = opened or host.new_session
        #: The ids of the sessions that were listed last, which a person may name by their number.
        self.listed: list[str] = []

    @property
    def session(self) -> Session:
        """The session a person is in."""
        if self._session is None:
            self._session = self._opened()
        return self._session

    @property
    def session_id(self) -> str:
        """Its id; empty while no session was needed."""
        return "" if self._session is None else self._session.id

    @property
    def platform(self) -> str:
        """The platform that the conversation runs on."""
        return self.host.options.platform if self._session is None else self._session.platform

    @property
    def surface_name(self) -> str:
        """Where commands are typed, in hooks."""
        return self.platform

    @property
    def place(self) -> tuple[Path, str]:
        """The folder and the principal that commands from files and skills are looked for with."""
        session = self._session
        return (self.host.cwd, "") if session is None else (session.cwd, session.principal)

    def title(self) -> str:
        """The stored title of the session, or the one that waits for its first message."""
        try:
            return self.host.sessions.get(self.session.id).title
        except SessionNotFound:
            return self.session.title

    def start_new(self) -> None:
        """Leave the session for a new one with the same models."""
        session = self.host.new_session()
        session.models = self.session.models
        self.switch_to(session, "new_session")

    def switch_to(self, session: Session, reason: str = "session_boundary") -> None:
        """Leave the session for another one: hooks report the end of the old identity, then the new one."""
        old, self._session = self.session, session
        host = self.host
        person = host.responders.get(old.id)
        if person is not None:
            host.responders.detach(old.id)
            host.responders.attach(session.id, person)
        old.close(reason, new_session_id=session.id)
        emit = host.hooks.on_session_reset
        if emit is not None:
            emit(
                SessionReset(
                    session_id=session.id,
                    platform=session.platform,
                    reason="new_session",
                    old_session_id=old.id,
                    new_session_id=session.id,
                )
            )
        if host.sessions.turn_count(old.id):
            release_lease(host.store, host.runner, old.id)  # another process may continue it now

    def lists(self, command: SlashCommand) -> bool:
        """Whether the help lists a command here."""
        return True

    @property
    def width(self) -> int | None:
        """Columns that there are for an answer; None where lines may have any length."""
        screen = self.surface.screen
        return None if screen is None else screen.width

    def need_screen(self, command: str) -> TerminalScreen:
        """The screen of the prompt; a command that needs one is refused elsewhere."""
        screen = self.surface.screen
        if screen is None:
            raise HermesError(
                f"{command} needs a terminal whose lines can be drawn again (not TERM=dumb, HERMES_PLAIN)"
            )
        return screen

    def confirmed(self, question: str) -> bool:
        """Whether something that discards work may be done: asked where the configuration says so."""
        return not self.host.config.approvals.destructive_slash_confirm or self.surface.confirm(question)

    def need_prompt(self, what: str) -> None:
        """Refuse a change that would be lost, because the run ends with this command."""
        if not self.surface.is_live:
            raise HermesError(f"{what} needs an interactive prompt: start one with 'hermes chat'")
