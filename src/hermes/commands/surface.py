"""What commands need of the place where a person types."""

from __future__ import annotations

from typing import Any, Protocol

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.scope import Interrupt

UserMessage = str | list[dict[str, Any]]


class Surface(Protocol):
    """A prompt, a chat or a single run, as far as commands have to do with it."""

    #: Whether the conversation goes on after the command.
    is_live: bool
    #: Whether the model's reasoning is shown.
    show_reasoning: bool

    @property
    def is_working(self) -> bool:
        """Whether a turn is under way."""
        ...

    @property
    def queued(self) -> int:
        """How many messages wait for the turn to end."""
        ...

    def run(self, message: UserMessage) -> None:
        """Answer a message now. Only asked for while no turn is under way; it need not wait for the answer."""
        ...

    def queue(self, text: str) -> None:
        """Answer a message after the turn that is under way."""
        ...

    def steer(self, text: str) -> bool:
        """Say something to the agent while it works. False when it has just ended."""
        ...

    def stop(self, reason: str) -> None:
        """Interrupt the turn that is under way."""
        ...

    def interrupt(self) -> Interrupt:
        """What ends a command that takes long, when the person wants that."""
        ...

    def pending_approval(self) -> ApprovalRequest | None:
        """The call that waits for the person's word."""
        ...

    def answer_approval(self, answer: ApprovalAnswer) -> None:
        """Give the person's word on it."""
        ...

    def confirm(self, question: str) -> bool:
        """Ask the person for a yes. Where nobody can be asked, what they typed is yes enough."""
        ...

    def clear_screen(self) -> None:
        """Begin with an empty screen."""
        ...

    def quit(self) -> None:
        """Leave once the command is done."""
        ...


class OneShotSurface:
    """The surface of a single run: nothing is under way before the command, and nobody is there after it."""

    is_live = False
    is_working = False
    queued = 0
    show_reasoning = False

    def __init__(self, interrupt: Interrupt | None = None) -> None:
        self._interrupt = interrupt or Interrupt()
        #: A message that the command wants answered, for the caller to run.
        self.to_run: UserMessage | None = None

    def run(self, message: UserMessage) -> None:
        self.to_run = message

    def queue(self, text: str) -> None:
        self.to_run = text

    def steer(self, text: str) -> bool:
        return False

    def stop(self, reason: str) -> None:
        self._interrupt.cancel(reason)

    def interrupt(self) -> Interrupt:
        return self._interrupt

    def pending_approval(self) -> ApprovalRequest | None:
        return None

    def answer_approval(self, answer: ApprovalAnswer) -> None:
        pass

    def confirm(self, question: str) -> bool:
        return True

    def clear_screen(self) -> None:
        pass

    def quit(self) -> None:
        pass
