"""Recording of checkpoints: what the tool pipeline calls before and after a call that changes files."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.base.config.principals import principal_home
from hermes.base.config.trust import project_root
from hermes.tools.files.checkpoints.states import ABSENT, FileState, discard, missing_folder, read_state
from hermes.tools.files.checkpoints.store import (
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    SavedFile,
    add_checkpoint,
    add_content,
    add_file,
    set_cache,
    set_left,
    set_tree,
)
from hermes.tools.files.checkpoints.trees import CachedFile, Tree, TreeLimits, TreeTooLarge, read_tree

if TYPE_CHECKING:
    from hermes.base.config.schema.sections import CheckpointsConfig

log = logging.getLogger("hermes.checkpoints")

_LONGEST_SUMMARY = 200
#: Contents of one snapshot, before they are compressed.
_NEW_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class TurnInProgress:
    """The turn that a change belongs to: that of the user, also when a child agent makes the change."""

    session_id: str
    turn_id: str
    #: Counted from 0.
    turn: int
    folder: Path
    principal: str = ""
    #: The user's message, without secrets.
    summary: str = ""


@dataclass(slots=True)
class _OpenTurn:
    """A turn that has a checkpoint."""

    checkpoint_id: int
    store: CheckpointStore
    #: The files of tools, and how the last call left each. Stored at the end of the turn: a sync for each call would
    #: cost more than it is worth.
    files: dict[str, FileState | None] = field(default_factory=dict[str, "FileState | None"])
    #: The folder of the snapshot for commands, once there is one.
    tree_folder: str | None = None


class Checkpoints:
    """The checkpoints of a host. Thread-safe. Nothing is read or made before the first change of a turn."""

    def __init__(
        self, home: Path, config: CheckpointsConfig, protect: Callable[[Path], None] = lambda _path: None
    ) -> None:
        """``protect`` receives the store's files, which tools must not open."""
        self._home = home
        self._config = config
        self._protect = protect
        self._lock = threading.RLock()
        self._stores: dict[str, CheckpointStore] = {}
        self._open: dict[str, _OpenTurn] = {}
        self._notices: list[str] = []
        #: Folders that are not saved before commands.
        self._too_large: set[str] = set()
        #: What was said already.
        self._said: set[str] = set()

    def store_of(self, principal: str = "") -> CheckpointStore:
        """The store of a principal."""
        with self._lock:
            store = self._stores.get(principal)
            if store is None:
                store = self._stores[principal] = CheckpointStore(principal_home(self._home, principal))
                for path in (store.path, store.path.with_name(f"{store.path.name}-journal")):
                    self._protect(path)
            return store

    def take_notices(self) -> list[str]:
        """What the user should know, once: why there is no checkpoint."""
        if not self._notices:
            return []
        with self._lock:
            taken, self._notices = self._notices, []
        return taken

    def close(self) -> None:
        """Close the stores."""
        for store in self._stores.values():
            store.close()

    # -- changes ------------------------------------------------------------------------------------------------

    def before_files(self, turn: TurnInProgress, paths: Iterable[Path]) -> None:
        """Save files that a tool is about to change, whether or not anything ignores them.

        Raises ``CheckpointError`` when they cannot be saved and the settings say to refuse the change then.
        """
        try:
            known = self._open.get(turn.turn_id)
            wanted = [str(path) for path in paths if known is None or str(path) not in known.files]
            if wanted:
                self._save(turn, wanted)
        except CheckpointError as error:
            self._cannot(error)

    def _save(self, turn: TurnInProgress, paths: list[str]) -> None:
        store = self.store_of(turn.principal)
        with store.writing() as connection:
            checkpoint_id = add_checkpoint(connection, _new(turn))
            for path in paths:
                before = read_state(path, lambda digest, data: add_content(connection, digest, data))
                made = missing_folder(path) if before == ABSENT else ""
                add_file(connection, checkpoint_id, SavedFile(path, before, None, made))
        self._opened(turn, checkpoint_id, store).files.update(dict.fromkeys(paths))

    def after_files(self, turn: TurnInProgress, paths: Iterable[Path]) -> None:
        """Record how a tool left its files."""
        known = self._open.get(turn.turn_id)
        if known is not None:
            known.files.update({path: read_state(path, discard) for path in map(str, paths) if path in known.files})

    def before_command(self, turn: TurnInProgress) -> None:
        """Save the tree that a command may change, once per turn."""
        known = self._open.get(turn.turn_id)
        if known is not None and known.tree_folder is not None:
            return
        folder = os.path.realpath(turn.folder if turn.principal else project_root(turn.folder))
        if folder in self._too_large:
            return
        try:
            self._save_tree(turn, folder)
        except TreeTooLarge as error:
            self._too_large.add(folder)
            self._say(f"commands are not covered by checkpoints in {folder}: {error}. Changes by file tools are")
        except CheckpointError as error:
            self._cannot(error)

    def _save_tree(self, turn: TurnInProgress, folder: str) -> None:
        if folder == "/" or folder == str(Path.home()):
            raise TreeTooLarge("it is not the folder of one project")
        store = self.store_of(turn.principal)
        with store.writing() as connection:
            cache = store.cache(folder)
            tree, has_changed = self._read(folder, cache, lambda digest, data: add_content(connection, digest, data))
            checkpoint_id = add_checkpoint(connection, _new(turn))
            # After a crash the turn has a tree already: the older one counts.
            if store.open_tree(checkpoint_id) is None:
                set_tree(connection, checkpoint_id, folder, tree)
            if has_changed:
                set_cache(connection, folder, cache)
        self._opened(turn, checkpoint_id, store).tree_folder = folder

    def _read(
        self, folder: str, cache: dict[str, CachedFile], keep: Callable[[bytes, bytes], None]
    ) -> tuple[Tree, bool]:
        limits = TreeLimits(self._config.max_files, self._config.max_file_mb << 20, _NEW_BYTES)
        return read_tree(folder, cache, keep, limits, excluded_folders(self._home))

    def turn_ended(self, turn_id: str) -> None:
        """Record how the turn left the tree. Costs nothing for a turn without a checkpoint."""
        known = self._open.pop(turn_id, None)
        if known is None:
            return
        try:
            self._settle(known)
            self._bound(known.store)
        except CheckpointError as error:
            self._say(f"what the turn left in its files is not recorded: {error}")

    def _settle(self, known: _OpenTurn) -> None:
        store, folder = known.store, known.tree_folder
        found = None if folder is None else store.open_tree(known.checkpoint_id)
        if folder is None or found is None:
            self._store_left(known)
            return
        _, before = found
        try:
            after, _ = self._read(folder, store.cache(folder), discard)
        except TreeTooLarge as error:
            self._store_left(known)
            self._say(f"what commands left in {folder} is not recorded: {error}")
            return
        with store.writing() as connection:
            for file in changed_files(folder, before, after.files):
                add_file(connection, known.checkpoint_id, file)
            # A command may have changed a file again after a tool did.
            for file in store.files(known.checkpoint_id):
                set_left(connection, known.checkpoint_id, file.path, state_now(file.path, file.before))
            set_tree(connection, known.checkpoint_id, folder, None)

    def _store_left(self, known: _OpenTurn) -> None:
        """Store how tools left their files."""
        with known.store.writing() as connection:
            for path, left in known.files.items():
                if left is not None:
                    set_left(connection, known.checkpoint_id, path, left)

    def _bound(self, store: CheckpointStore) -> None:
        """Keep the store within its limits."""
        config = self._config
        limit = config.max_size_mb << 20
        older_than = time.time() - config.keep_days * 86_400
        oldest = store.rows("SELECT MIN(created_at) FROM checkpoints")
        if store.stored_bytes() > limit or (oldest and oldest[0][0] is not None and oldest[0][0] < older_than):
            store.prune(max_bytes=limit, older_than=older_than, keep=[one.checkpoint_id for one in self._open.values()])

    def _opened(self, turn: TurnInProgress, checkpoint_id: int, store: CheckpointStore) -> _OpenTurn:
        return self._open.setdefault(turn.turn_id, _OpenTurn(checkpoint_id, store))

    def _cannot(self, error: CheckpointError) -> None:
        if self._config.on_error == "refuse":
            raise CheckpointError(
                f"the change was not made, because no checkpoint could be made before it: {error} "
                "(checkpoints.on_error: warn lets changes run without one)"
            )
        self._say(f"no checkpoint: {error}. The change is made, and /undo cannot restore it")

    def _say(self, text: str) -> None:
        log.warning("%s", text)
        with self._lock:
            if text not in self._said:
                self._said.add(text)
                self._notices.append(text)


def state_now(path: str, before: FileState) -> FileState:
    """The state of a path now; of a file that was too long to be kept before, only its size and time."""
    return read_state(path, discard, 0 if before.kind == "large" else None)


def changed_files(folder: str, before: Tree, after: dict[str, FileState]) -> Iterable[SavedFile]:
    """The files of a tree that were changed, deleted or created."""
    for path, state in before.files.items():
        left = after.get(path, ABSENT)
        if left != state:
            yield SavedFile(f"{folder}/{path}", state, left)
    for path, left in after.items():
        if path not in before.files:
            yield SavedFile(f"{folder}/{path}", ABSENT, left, _made(folder, path, before.folders))


def _made(folder: str, path: str, known: set[str]) -> str:
    """The topmost folder of a new file that was not there before."""
    parts = path.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        inner = "/".join(parts[:depth])
        if inner not in known:
            return f"{folder}/{inner}"
    return ""


def excluded_folders(home: Path) -> frozenset[str]:
    """The folders that no snapshot holds: the home, with its keys and this store."""
    return frozenset({os.path.realpath(home)})


def _new(turn: TurnInProgress) -> Checkpoint:
    summary = " ".join(turn.summary.split())[:_LONGEST_SUMMARY].encode("utf-8", "replace").decode()
    return Checkpoint(
        id=0,
        session_id=turn.session_id,
        turn_id=turn.turn_id,
        turn=turn.turn,
        reason="turn",
        created_at=time.time(),
        folder=str(turn.folder),
        summary=summary,
    )
