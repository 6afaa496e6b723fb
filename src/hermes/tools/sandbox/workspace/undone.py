"""Changes of files that run code by themselves, undone after a command: the record of one, and making it after all."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from hermes.tools.files.atomic import NEW_FILE
from hermes.tools.sandbox.git_config import CodeKeys, changed_keys, restore_keys
from hermes.tools.sandbox.workspace.beneath import Folders

#: What a question shows of a file.
_SHOWN_CHARS = 1_500
_LARGEST_CONFIGURATION = 4_194_304


class UndoneChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change that a command made and that was undone. The journal keeps it while its question waits."""

    path: str
    #: What the command did, for example "made PATH".
    did: str
    #: What became of it.
    outcome: str
    #: The kind of the file and its permissions, as in ``st_mode``.
    mode: int = 0
    #: The file as the command left it: its content, or the target of a link.
    content: bytes | None = None
    is_deleted: bool = False
    #: Settings of a git configuration: what the command made of them, and what they are now.
    keys: CodeKeys | None = None
    keys_before: CodeKeys = {}

    @property
    def report(self) -> str:
        """The change and what became of it, in one sentence."""
        return f"{self.did}; {self.outcome}"

    @property
    def can_be_kept(self) -> bool:
        """Whether enough is known of it to make it after all."""
        return self.is_deleted or self.content is not None or self.keys is not None

    def text(self) -> str:
        """All that the record of it holds, as one text."""
        values = [value for found in (self.keys or {}, self.keys_before) for some in found.values() for value in some]
        return "\n".join([self.path, self.did, (self.content or b"").decode("utf-8", "backslashreplace"), *values])

    def shown(self) -> str:
        """The change in full, for the one who decides about it."""
        if self.keys is not None:
            values = [f"  {key} = {value}" for key, found in self.keys.items() for value in found]
            return "\n".join([self.did, *values])
        text = (self.content or b"").decode("utf-8", "backslashreplace")
        if stat.S_ISLNK(self.mode):
            return f"{self.did}\n  -> {text}"
        more = f"\n  … ({len(text):,} characters in all)" if len(text) > _SHOWN_CHARS else ""
        lines = "\n".join(f"  {line}" for line in text[:_SHOWN_CHARS].splitlines())
        return self.did if self.is_deleted else f"{self.did}\n{lines}{more}"

    def redo(self) -> str:
        """Make the change after all; one sentence about it."""
        try:
            with Folders() as folders:
                if self.keys is not None:
                    change_keys(self.path, self.keys, self.keys_before, folders)
                elif self.is_deleted:
                    with suppress(FileNotFoundError):
                        folders.remove(self.path)
                else:
                    folders.write(self.path, self.mode, self.content or b"")
        except OSError as error:
            return f"{self.did}; it could not be kept: {error.strerror}"
        return f"{self.did}; it was approved and is kept"


# Inspected now: msgspec would do it at the first use, and crash when two threads use it first.
msgspec.json.Decoder(UndoneChange)


def move_away(path: str, folder: str, folders: Folders) -> str:
    """Move a file or a link into a folder that commands can write to, too; its name there."""
    target = _true_folder(folder)
    try:
        return folders.move(path, target)
    finally:
        os.close(target)


def change_keys(file: str, before: CodeKeys, after: CodeKeys, folders: Folders) -> list[str]:
    """Give the settings of a git configuration that differ the values they had; the names of these settings.

    Git would follow links on the way to the file, so it works on a copy. What is locked stays as it is.
    """
    changed = changed_keys(file, before, after)
    folder, name = os.path.split(file)
    parent = folders.change(folder)
    try:
        mode = folders.status(name, parent).st_mode
    except FileNotFoundError:
        mode = stat.S_IFREG | 0o644
    content = folders.read(name, parent, _LARGEST_CONFIGURATION) if stat.S_ISREG(mode) else None
    if not changed or not stat.S_ISREG(mode):
        return changed
    lock = f"{name}.lock"
    try:
        descriptor = os.open(lock, NEW_FILE, 0o600, dir_fd=parent)
    except FileExistsError:
        return changed
    try:
        with open(descriptor, "wb") as locked:
            locked.write(_with_keys(content or b"", changed, before, after))
            os.fchmod(descriptor, stat.S_IMODE(mode))
        os.rename(lock, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with suppress(OSError):
            os.unlink(lock, dir_fd=parent)
        raise
    return changed


def _with_keys(content: bytes, changed: Sequence[str], before: CodeKeys, after: CodeKeys) -> bytes:
    with tempfile.TemporaryDirectory(prefix="hermes-git-") as folder:
        copy = os.path.join(folder, "config")
        with open(copy, "wb") as file:
            file.write(content)
        restore_keys(copy, changed, before, after)
        with open(copy, "rb") as file:
            return file.read()


def _true_folder(folder: str) -> int:
    """A descriptor of a folder, which is made if there is none. A link of that name would lead anywhere."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(folder, flags)
    except OSError:  # a link, or a file
        os.unlink(folder)
        os.mkdir(folder, 0o700)
        return os.open(folder, flags)
