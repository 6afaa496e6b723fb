"""The port of the agent to its checkpoints. Light: the store and its code are loaded by the first change of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes.base.config.schema.sections import CheckpointsConfig
    from hermes.tools.files.checkpoints.recorder import Checkpoints, TurnInProgress
    from hermes.tools.files.checkpoints.store import Checkpoint


class CheckpointPort:
    """Checkpoints as the tool pipeline, turns and surfaces use them."""

    def __init__(self, home: Path, config: CheckpointsConfig, protect: Callable[[Path], None]) -> None:
        """``protect`` receives the store's files, which tools must not open."""
        self._home, self._config, self._protect = home, config, protect

    @cached_property
    def recorder(self) -> Checkpoints:
        """The checkpoints of the host."""
        from hermes.tools.files.checkpoints.recorder import Checkpoints

        return Checkpoints(self._home, self._config, self._protect)

    def run(self, turn: TurnInProgress, paths: Iterable[Path] | None, change: Callable[[], str]) -> str:
        """Make a change after its checkpoint. ``paths`` are the files it writes; None may change the whole project.

        Raises ``CheckpointError``, without making the change, when the settings want that.
        """
        if paths is None:
            self.recorder.before_command(turn)
            return change()
        files = list(paths)
        self.recorder.before_files(turn, files)
        try:
            return change()
        finally:
            self.recorder.after_files(turn, files)

    def before_turn(self, session_id: str, turn: int, principal: str = "") -> Checkpoint | None:
        """The checkpoint that restores the files as they were before a turn (counted from 0) of a session.

        None when neither that turn nor a later one changed files.
        """
        return self.recorder.store_of(principal).before_turn(session_id, turn)

    def turn_ended(self, turn_id: str) -> None:
        """Record how a turn left its files; nothing happens for one that changed none."""
        if "recorder" in self.__dict__:
            self.recorder.turn_ended(turn_id)

    def take_notices(self) -> list[str]:
        """What the user should know, once: why there is no checkpoint."""
        return self.recorder.take_notices() if "recorder" in self.__dict__ else []

    def close(self) -> None:
        """Close the stores."""
        if "recorder" in self.__dict__:
            self.recorder.close()
