"""Changes in folders, as the kernel reports them: inotify of Linux."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

_HEAD = struct.Struct("iIII")
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _IS_FOLDER = 0x4000, 0x8000, 0x4000_0000
_ONLY_FOLDERS, _NO_LINKS = 0x0100_0000, 0x0200_0000
_WATCHED = _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS | _NO_LINKS
_AT_ONCE = 262_144


class FolderChange(NamedTuple):
    """An entry that came to a folder, or went."""

    folder: str
    name: str
    is_folder: bool


class FolderChanges:
    """Tells which entries of folders came and went. OSError when the kernel has no inotify, or too many use it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._descriptor: int = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self._folders: dict[int, str] = {}
        #: Other programs of the user need some, too.
        self.most = _most_watches()

    def watch(self, folder: str) -> bool:
        """Watch a folder from now on; whether that worked. One that was moved is watched under its new name."""
        if len(self._folders) >= self.most:
            return False
        number = self._library.inotify_add_watch(self._descriptor, os.fsencode(folder), _WATCHED)
        if number < 0:
            return False
        self._folders[number] = folder
        return True

    def read(self) -> list[FolderChange] | None:
        """What happened since the last time; None when there was more than the kernel keeps."""
        found: dict[FolderChange, None] = {}
        is_complete = True
        while data := self._read():
            at = 0
            while at < len(data):
                number, mask, _, length = _HEAD.unpack_from(data, at)
                name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
                at += _HEAD.size + length
                if mask & _IGNORED:
                    self._folders.pop(number, None)
                elif mask & _OVERFLOW:
                    is_complete = False
                elif (folder := self._folders.get(number)) is not None:
                    found[FolderChange(folder, os.fsdecode(name), bool(mask & _IS_FOLDER))] = None
        return list(found) if is_complete else None

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _AT_ONCE)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """End all watches, once."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _most_watches() -> int:
    try:
        with open("/proc/sys/fs/inotify/max_user_watches") as file:
            return min(50_000, int(file.read()) // 4)
    except (OSError, ValueError):
        return 2_000
