"""What a prompt needs of the place where things are shown."""

from __future__ import annotations

from typing import Protocol

from hermes.agent.events import TurnResult
from hermes.contract.events import TurnEvent


class Display(Protocol):
    """A screen with a prompt, or plain lines. Everything here may be called by any thread."""

    def event(self, event: TurnEvent) -> None:
        """Something happened in the turn under way."""
        ...

    def turn_over(self, result: TurnResult) -> None:
        """The turn ended."""
        ...

    def say(self, text: str) -> None:
        """Show what a command answered."""
        ...

    def note(self, text: str) -> None:
        """Show a remark about the prompt itself."""
        ...

    def complain(self, text: str) -> None:
        """Show what went wrong."""
        ...

    def give_back(self, text: str) -> None:
        """A message was not taken; the person should not have to type it again."""
        ...

    def changed(self) -> None:
        """A question came or went, a message waits, the agent began or ended its work."""
        ...

    def clear(self) -> None:
        """Begin with an empty screen."""
        ...

    def end(self) -> None:
        """The prompt is over."""
        ...
