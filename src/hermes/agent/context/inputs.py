"""Inputs of a turn from outside: facts about the world for the prompt, ids and messages that arrive while it runs.

A turn takes them as they are now. A recorded run that is run again takes them from its record, through ``TurnInputs``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Protocol

import msgspec


class PromptFacts(msgspec.Struct, frozen=True):
    """The facts that the prompt of a turn is made from, beside the settings. The journal keeps them with the turn."""

    cwd: str = ""
    system: str = ""
    shell: str = ""
    #: The day where the user is.
    date: str = ""
    #: The instruction files of the project.
    instructions: str = ""
    #: The notes of earlier sessions.
    notes: str = ""
    #: What a memory provider says in general, and about the message.
    memory: str = ""
    recalled: str = ""
    #: The sections of plugins, as they were when the session began.
    sections: str = ""
    #: The list of skills.
    skills: str = ""
    #: What the caller adds to the message.
    context: str = ""

    def recorded(self) -> dict[str, Any]:
        """The facts that say something."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}


class TurnInputs(Protocol):
    """Where the turns of a run that is run again get their inputs."""

    def turn_id(self, session_id: str, turn: int) -> str | None:
        """The id of a turn, counted from 0; None makes a new one."""
        ...

    def facts(self, session_id: str, turn_id: str) -> PromptFacts:
        """The facts for the prompt of a turn."""
        ...

    def texts(self, session_id: str, turn_id: str, step: int) -> list[str]:
        """The messages that were added to a turn after a step."""
        ...


def place_facts(cwd: Path) -> PromptFacts:
    """Where and when a turn starts."""
    machine = os.uname()
    shell = (os.environ.get("SHELL") or "/bin/sh").rpartition("/")[2]
    return PromptFacts(str(cwd), f"{machine.sysname} {machine.machine}", shell, time.strftime("%Y-%m-%d"))
