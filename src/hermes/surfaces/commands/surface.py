"""Surface: what commands need of the prompt, chat or run that they are typed in."""

from __future__ import annotations

from typing import Any, Protocol

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.base.scope import Interrupt

UserMessage = str | list[dict[str, Any]]


class TerminalScreen(Protocol):
    """A prompt on a terminal that can be drawn on. All methods may be called by any thread."""

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        ...

    def copy(self, text: str) -> None:
        """Put text on the clipboard. Raises ``HermesError`` when that is not possible."""

    def edit(self, text: str) -> None:
        """Open the user's editor on the input, which becomes ``text`` first unless that is empty."""

    def offer(self, line: str) -> None:
        """Put the beginning of a line into the input and offer its completions."""

    def paste_image(self) -> None:
        """Attach the image of the clipboard to the message. Raises ``HermesError`` when there is none."""


class Surface(Protocol):
    """A prompt, a chat or a single run.

    What it does not say itself is so where nothing is drawn, no turn runs and no one is asked while a command runs.
    """

    #: Whether the conversation continues after the command.
    is_live: bool
    #: Whether the model's reasoning is shown.
    show_reasoning: bool = False

    @property
    def screen(self) -> TerminalScreen | None:
        """The screen, where there is one."""
        return None

    @property
    def is_working(self) -> bool:
        """Whether a turn is running."""
        return False

    @property
    def queued(self) -> int:
        """How many messages wait for the turn to end."""
        return 0

    def run(self, message: UserMessage) -> None:
        """Answer a message now. Only called while no turn is running; it need not wait for the answer."""

    def queue(self, text: str) -> None:
        """Answer a message after the running turn."""

    def steer(self, text: str) -> bool:
        """Say something to the agent while it works. False when it has just ended."""
        return False

    def stop(self, reason: str) -> None:
        """Interrupt the running turn."""

    def interrupt(self) -> Interrupt:
        """The interrupt of a long command."""
        ...

    def pending_approval(self) -> ApprovalRequest | None:
        """The call that waits for approval."""
        return None

    def answer_approval(self, answer: ApprovalAnswer) -> None:
        """Answer the pending approval."""

    def confirm(self, question: str) -> bool:
        """Ask the user to confirm. True where no one can be asked: they typed the command."""
        return True

    def decide(self, question: str) -> bool | None:
        """Ask the user for a decision that is stored; None where there is no answer."""
        return None

    def clear_screen(self) -> None:
        """Begin with an empty screen."""

    def quit(self) -> None:
        """Leave once the command is done."""


class OneShotSurface(Surface):
    """The surface of a single run: no turn is running, and no one answers questions."""

    is_live = False

    def __init__(self, interrupt: Interrupt | None = None) -> None:
        self._interrupt = interrupt or Interrupt()
        #: A message that the command wants answered, for the caller to run.
        self.to_run: UserMessage | None = None

    def run(self, message: UserMessage) -> None:
        self.to_run = message

    def queue(self, text: str) -> None:
        self.to_run = text

    def take(self, text: str) -> bool:
        """Answer a message of a plugin after the command, unless there is one already."""
        if self.to_run is None:
            self.to_run = text
            return True
        return False

    def stop(self, reason: str) -> None:
        self._interrupt.cancel(reason)

    def interrupt(self) -> Interrupt:
        return self._interrupt
