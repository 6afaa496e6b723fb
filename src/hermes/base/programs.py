"""Programs of the machine that Hermes starts itself: found only where no command could have put them.

PATH may begin with a folder of the workspace, that of an activated environment for example. What a command leaves there
must not be run outside of the sandbox.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence

#: Folders of the system, which belong to no workspace.
_SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
_MOST_LINKS = 40

#: Folders that commands of this process may change, with what is read-only in them.
_changed: dict[str, tuple[str, ...]] = {}


def note_changeable(folders: Iterable[str], read_only: Iterable[str] = ()) -> None:
    """Commands may change these folders from now on: programs in them are not those of the machine.

    A home folder counts only when it is known what is read-only in it: it has the owner's own programs.
    """
    protected, home = tuple(read_only), os.path.realpath(os.path.expanduser("~"))
    for folder in map(os.path.realpath, folders):
        if protected or not _is_inside(home, folder):
            _changed[folder] = protected or _changed.get(folder, ())


def find_program(name: str, path: str | None = None, *, system_first: bool = False) -> str | None:
    """The program of the machine with that name; None when PATH has none, or only one that a command could have made.

    ``system_first``: for what Hermes runs unasked. Which of two versions it gets does not matter to the owner then, and
    PATH may have the environment of a project that an earlier run worked in.
    """
    folders = trusted_folders(path)
    if system_first:
        folders.sort(key=lambda folder: folder not in _SYSTEM)
    for folder in folders:
        candidate = os.path.join(folder, name)
        is_program = os.path.isfile(candidate) and os.access(candidate, os.X_OK)
        if is_program and (folder in _SYSTEM or _is_trusted(candidate)):
            return candidate
    return None


def trusted_folders(path: str | None = None) -> list[str]:
    """The folders of PATH that no command may change."""
    value = os.environ.get("PATH", os.defpath) if path is None else path
    folders = [folder for folder in value.split(os.pathsep) if os.path.isabs(folder)]
    return [folder for folder in folders if folder in _SYSTEM or _is_trusted(folder)]


def owners_command(words: Sequence[str]) -> list[str]:
    """A command line of the owner with the whole path of its program; ``OSError`` when there is none of the machine.

    A program that is named by its path is what the owner wants.
    """
    if not words or os.sep in words[0]:
        return list(words)
    found = find_program(words[0])
    if found is None:
        reason = "no folder of PATH that commands cannot change has it; name it by its path"
        raise FileNotFoundError(errno.ENOENT, reason, words[0])
    return [found, *words[1:]]


def _is_trusted(path: str) -> bool:
    """Whether neither a file or folder nor any link on the way to it lies where a command may change it."""
    changed = {**_changed, **dict.fromkeys(_usual_folders(), ())}
    for place in _way(path):
        for folder, protected in changed.items():
            if _is_inside(place, folder) and not any(_is_inside(place, one) for one in protected):
                return False
    return True


def _usual_folders() -> Iterator[str]:
    """The folder for temporary files, the working folder and the repository that it is part of."""
    yield os.path.realpath(os.environ.get("TMPDIR") or "/tmp")
    try:
        folder = os.getcwd()
    except OSError:  # it was deleted
        return
    home = os.path.realpath(os.path.expanduser("~"))
    if not _is_inside(home, folder):  # it has the owner's own programs; what a sandbox keeps read-only was noted
        yield folder
    while not _is_inside(home, folder):
        if os.path.lexists(os.path.join(folder, ".git")):
            yield folder
        folder = os.path.dirname(folder)


def _way(path: str) -> Iterator[str]:
    """The links on the way to a file or folder, and where it is in the end."""
    place, rest, links = "/", path.split(os.sep), 0
    while rest:
        part, *rest = rest
        if part == os.pardir:
            place = os.path.dirname(place)
        elif part not in ("", os.curdir):
            place = os.path.join(place, part)
        if part not in ("", os.curdir, os.pardir) and links < _MOST_LINKS and os.path.islink(place):
            yield place
            target, links = os.readlink(place), links + 1
            place = "/" if os.path.isabs(target) else os.path.dirname(place)
            rest = [*target.split(os.sep), *rest]
    yield place


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
