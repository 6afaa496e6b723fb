"""Folders that are opened part by part, so that no link which a command made is followed, whenever it made it.

Hermes is outside of the sandbox: what it reads, moves or writes for a path that a command chose must be at that path.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection
from errno import EACCES, ELOOP, ENOTDIR, EXDEV
from itertools import count
from types import TracebackType

from hermes.tools.files.atomic import FOLDER, NEW_FILE

#: Device and number of a file.
FileId = tuple[int, int]

#: A named pipe must not hold up the one who reads it.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Folders:
    """Opens folders by paths without links. Those on the way to the last one stay open for the next."""

    def __init__(self, hidden: Collection[FileId] = ()) -> None:
        """``hidden``: files and folders that are neither entered nor read nor moved."""
        self._hidden = hidden
        self._parts: list[str] = []
        self._open = [os.open("/", FOLDER)]

    def open(self, folder: str, *, make: bool = False) -> int:
        """The descriptor of a folder, for use until the next call. Raises OSError, also where a link is on the way."""
        parts = [part for part in folder.split("/") if part]
        same = 0
        while same < min(len(parts), len(self._parts)) and parts[same] == self._parts[same]:
            same += 1
        self._close_after(same)
        for part in parts[same:]:
            if make:
                self._make(part)
            self._enter(part)
        return self._open[-1]

    def _make(self, part: str) -> None:
        try:
            os.mkdir(part, dir_fd=self._open[-1])
        except FileExistsError:
            return

    def _enter(self, part: str) -> None:
        if part == "..":
            raise OSError(ELOOP, "it leads elsewhere now")
        try:
            inner = os.open(part, FOLDER, dir_fd=self._open[-1])
        except OSError as error:
            if error.errno in (ELOOP, ENOTDIR):
                raise OSError(error.errno, "it leads elsewhere now") from None
            raise
        self._open.append(inner)
        self._parts.append(part)
        try:
            self._refuse_hidden(os.fstat(inner))
        except OSError:
            self._close_after(len(self._parts) - 1)
            raise

    def _refuse_hidden(self, found: os.stat_result) -> None:
        if (found.st_dev, found.st_ino) in self._hidden:
            raise PermissionError(EACCES, "it is hidden from commands")

    def status(self, name: str, folder: int) -> os.stat_result:
        """The status of an entry of an open folder. Raises OSError for one that is hidden."""
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        self._refuse_hidden(found)
        return found

    def read(self, name: str, folder: int, limit: int) -> bytes | None:
        """The content of a regular file or the target of a link; None when it cannot be had, or is larger."""
        try:
            if stat.S_ISLNK(self.status(name, folder).st_mode):
                return os.fsencode(os.readlink(name, dir_fd=folder))
            descriptor = os.open(name, _READ, dir_fd=folder)
        except OSError:
            return None
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            is_hidden = (found.st_dev, found.st_ino) in self._hidden
            if is_hidden or not stat.S_ISREG(found.st_mode) or found.st_size > limit:
                return None
            content = file.read(limit + 1)
        return content if len(content) <= limit else None

    def has(self, folder: str) -> bool:
        """Whether there is such a folder."""
        try:
            self.open(folder)
        except OSError:
            return False
        return True

    def change(self, folder: str, *, make: bool = False) -> int:
        """As ``open``, for a folder whose entries are to be changed: commands may have closed it."""
        descriptor = self.open(folder, make=make)
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=descriptor):
            mode = stat.S_IMODE(os.fstat(descriptor).st_mode) | stat.S_IRWXU
            # The descriptor itself is only for going through it.
            os.chmod(f"/proc/self/fd/{descriptor}", mode)
        return descriptor

    def write(self, path: str, mode: int, content: bytes) -> None:
        """Replace what is at a path by a file or a link; ``mode`` is as in ``st_mode``."""
        folder, name = os.path.split(path)
        parent = self.change(folder, make=True)
        try:
            is_folder = stat.S_ISDIR(self.status(name, parent).st_mode)
            # An empty folder may have taken its place.
            (os.rmdir if is_folder else os.unlink)(name, dir_fd=parent)
        except FileNotFoundError:
            pass
        if stat.S_ISLNK(mode):
            os.symlink(os.fsdecode(content), name, dir_fd=parent)
            return
        with open(os.open(name, NEW_FILE, 0o600, dir_fd=parent), "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), stat.S_IMODE(mode))

    def remove(self, path: str) -> None:
        """Remove a file or a link."""
        folder, name = os.path.split(path)
        os.unlink(name, dir_fd=self.change(folder))

    def move(self, path: str, target: int) -> str:
        """Move a file or a link into an open folder, which commands can write to, too; its name there."""
        folder, name = os.path.split(path)
        present = set(os.listdir(target))
        new = next(new for number in count(1) if (new := f"{number}-{name}") not in present)
        parent = self.change(folder)
        self.status(name, parent)
        try:
            os.rename(name, new, src_dir_fd=parent, dst_dir_fd=target)
        except OSError as error:
            if error.errno != EXDEV:
                raise
            self._copy(name, parent, new, target)
            os.unlink(name, dir_fd=parent)
        return new

    def _copy(self, name: str, folder: int, new: str, target: int) -> None:
        """Copy a file or a link. A pipe or a device is not worth it."""
        mode = self.status(name, folder).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(name, dir_fd=folder), new, dir_fd=target)
        elif stat.S_ISREG(mode):
            with open(os.open(name, _READ, dir_fd=folder), "rb") as content:
                self._refuse_hidden(os.fstat(content.fileno()))
                with open(os.open(new, NEW_FILE, 0o600, dir_fd=target), "wb") as copy:
                    shutil.copyfileobj(content, copy)

    def _close_after(self, number: int) -> None:
        while len(self._parts) > number:
            self._parts.pop()
            os.close(self._open.pop())

    def __enter__(self) -> Folders:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._close_after(0)
        os.close(self._open.pop())
