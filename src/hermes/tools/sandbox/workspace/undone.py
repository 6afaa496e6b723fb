"""Changes of files that run code by themselves, undone after a command: the record of one, and making it after all."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from errno import ELOOP, EXDEV
from itertools import count

import msgspec

from hermes.tools.sandbox.git_config import CodeKeys, restore_keys

#: What a question shows of a file.
_SHOWN_CHARS = 1_500


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
            _open_up(os.path.dirname(self.path))
            if self.keys is not None:
                restore_keys(self.path, self.keys, self.keys_before)
            elif self.is_deleted:
                with suppress(FileNotFoundError):
                    os.unlink(self.path)
            else:
                write_state(self.path, self.mode, self.content or b"")
        except OSError as error:
            return f"{self.did}; it could not be kept: {error.strerror}"
        return f"{self.did}; it was approved and is kept"


# Inspected now: msgspec would do it at the first use, and crash when two threads use it first.
msgspec.json.Decoder(UndoneChange)


def write_state(path: str, mode: int, content: bytes) -> None:
    """Replace what is at a path by a file or a link. Neither is followed, and no link on the way to it."""
    _open_up(os.path.dirname(path))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileNotFoundError):
        # An empty folder may have taken its place.
        (os.rmdir if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)
    if stat.S_ISLNK(mode):
        os.symlink(os.fsdecode(content), path)
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        os.fchmod(descriptor, stat.S_IMODE(mode))


def move_away(path: str, folder: str) -> str:
    """Move a file or a link into a folder that commands can write to, too; its name there."""
    _open_up(os.path.dirname(path))
    target = _true_folder(folder)
    try:
        present = set(os.listdir(target))
        name = next(name for number in count(1) if (name := f"{number}-{os.path.basename(path)}") not in present)
        try:
            os.rename(path, name, dst_dir_fd=target)
        except OSError as error:
            if error.errno != EXDEV:
                raise
            _copy(path, name, target)
            os.unlink(path)
    finally:
        os.close(target)
    return name


def _copy(path: str, name: str, target: int) -> None:
    """Copy a file or a link into a folder. A pipe or a device is not worth it."""
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(path), name, dir_fd=target)
    elif stat.S_ISREG(mode):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(source, "rb") as content, open(os.open(name, flags, 0o600, dir_fd=target), "wb") as copy:
            shutil.copyfileobj(content, copy)


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


def _open_up(folder: str) -> None:
    """Make sure that entries of a folder can be changed. OSError when a link leads elsewhere on the way to it."""
    if os.path.realpath(folder) != folder:
        raise OSError(ELOOP, f"{folder} leads elsewhere now")
    if os.path.isdir(folder) and not os.access(folder, os.W_OK | os.X_OK):
        os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | stat.S_IRWXU)
