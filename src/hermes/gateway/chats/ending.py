"""The answer to a message, stored with the end of its turn where nothing comes between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes.gateway.chats.answers import answer_messages, completed_text
from hermes.gateway.store.inbox import Completion
from hermes.journal.store.connection import JournalConnection
from hermes.journal.turns.steps import TurnState

if TYPE_CHECKING:
    from hermes.gateway.chats.chat import ChatWork
    from hermes.gateway.gateway import Gateway


class AnswerWithTurn:
    """Stores the end of a message in the transaction that ends its turn. Implements ``TurnEnding``."""

    def __init__(self, gateway: Gateway, work: ChatWork) -> None:
        self._gateway, self._work = gateway, work
        self._tried: Completion | None = None
        #: The end of the message, once it is on disk.
        self.completion: Completion | None = None

    def store(self, connection: JournalConnection, state: TurnState, answer: str | None, error: str | None) -> None:
        """Store and claim the answer, unless the chat has to decide about it, or hooks would keep it waiting."""
        gateway, work = self._gateway, self._work
        self._tried = None
        if state != "completed" or not answer or not gateway.answers_at_once(work):
            return
        platform, redactor = work.message.platform, gateway.host.redactor
        text = completed_text(answer, error)
        messages = answer_messages(work, text, redactor, gateway.message_limit(platform))
        claims = platform in gateway.adapters
        completion = Completion(work.message.number, messages, error=redactor.redact(error or ""), claims=claims)
        completion.store(connection)
        self._tried = completion

    def stored(self) -> None:
        """The answer may be sent."""
        self.completion = self._tried
        if self.completion is not None:
            self._gateway.unsent.add(self._work.message.number)
