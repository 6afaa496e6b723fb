"""Work as a user without special rights. The superuser may read every file, so that permissions mean nothing there."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

#: The user ``nobody`` of most systems; only its number matters.
_NUMBER = 65_534


@contextmanager
def shared_folder() -> Generator[Path]:
    """An empty folder that every user can reach, which the folders of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix="hermes-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_ordinary_user(work: Callable[[], T]) -> T:
    """What ``work`` returns in a child process without the rights of the superuser.

    What it imports has to be imported before: the interpreter itself may be out of reach there.
    """
    if os.geteuid() != 0:
        return work()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(_NUMBER, _NUMBER, _NUMBER)
            os.setresuid(_NUMBER, _NUMBER, _NUMBER)
            message = pickle.dumps((True, work()))
        except BaseException:
            message = pickle.dumps((False, traceback.format_exc()))
        os.write(writable, message)
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as stream:
        is_done, value = pickle.loads(stream.read())
    os.waitpid(child, 0)
    assert is_done, value
    return value
