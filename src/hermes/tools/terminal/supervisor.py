"""A small process that kills the process groups of commands when Hermes is gone, however it ended.

It reads a pipe whose other end only Hermes holds, so the kernel reports every end of Hermes, ``kill -9`` included, as
the end of the pipe. A parent-death signal would not do: it follows the thread that started the command, and a program
with other rights loses it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cache

#: ``+ 123`` adds a group to its list, ``- 123`` removes it. At the end of its input it kills those that are left.
_SCRIPT = """\
cd /
groups=' '
while read -r sign group; do
    case $sign$groups in
        +*" $group "*) ;;
        +*) groups="$groups$group " ;;
        -*" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""

#: For a shell whose standard error is the descriptor of ``registration``: registers its process group. A supervising
#: process that was killed must not end the command with SIGPIPE; ``add`` starts another one.
REGISTER = 'trap "" PIPE; echo "+ $$" >&2; trap - PIPE; '

_REAP_SECONDS = 0.1


#: Waits for a line on the standard input. The end of the input means that Hermes is gone, or does not want the command.
_HOLD = "read -r _ || exit 125\n"


@cache
def registration_script(*, holds: bool = False) -> int:
    """A descriptor of a file for ``BASH_ENV``, which bash reads before its command; -1 where there are no such files.

    It registers a bash whose standard error is the descriptor of ``registration``, directs its standard error to its
    output, and leaves nothing behind that the command could see. That saves a shell in front of it. A child process
    must inherit the descriptor. Nothing can change the file, and it stays open. One that ``holds`` the bash waits for a
    line on its standard input, which is empty afterwards.
    """
    if not hasattr(os, "memfd_create"):
        return -1
    from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE, fcntl

    try:
        descriptor = os.memfd_create("hermes-registration", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        # The last line sets $_ to what it is in a bash that has read no file.
        hold, no_input = (_HOLD, "</dev/null ") if holds else ("", "")
        script = f'{REGISTER}\n{hold}exec {no_input}2>&1 {descriptor}<&-\nunset BASH_ENV\n: "$BASH"\n'
        os.write(descriptor, script.encode())
        fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)
    except OSError:
        return -1
    return descriptor if os.access(f"/dev/fd/{descriptor}", os.R_OK) else -1


class ProcessSupervisor:
    """Process groups that end with this process. The supervising process starts with the first one. Thread-safe."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._pid = 0
        self._pipe = -1
        self._lock = threading.Lock()

    def add(self, group: int) -> None:
        """Kill the process group when this process is gone."""
        with self._lock:
            self._groups.add(group)
            self._send(f"+ {group}\n")

    def remove(self, group: int) -> None:
        """The group has ended: its number may soon be that of another one."""
        with self._lock:
            self._groups.discard(group)
            self._send(f"- {group}\n")

    def start(self) -> None:
        """Start the supervising process, so that the first command need not wait for it."""
        with self._lock:
            if self._pipe < 0:
                self._spawn()

    @contextmanager
    def registration(self) -> Generator[int]:
        """A descriptor with which a new process can register itself, see ``REGISTER``.

        Hermes may be killed in the instant between the start of a process and its ``add``. While the process holds the
        descriptor the pipe does not end, so the supervising process gets to know of it in any case.
        """
        with self._lock:
            if self._pipe < 0:
                self._spawn()
            descriptor = os.dup(self._pipe)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """End the supervising process. Groups that are still registered are killed."""
        with self._lock:
            if self._pipe >= 0:
                os.close(self._pipe)
                self._pipe = -1
            self._reap()

    def _send(self, line: str) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, line.encode())
            except BlockingIOError:  # it was stopped, and the pipe is full
                pass
            except OSError:  # it was killed
                os.close(self._pipe)
                self._pipe = -1
                self._reap()
            else:
                return
        if self._pipe < 0 and self._groups:
            self._spawn()
            for group in self._groups:
                with suppress(OSError):
                    os.write(self._pipe, f"+ {group}\n".encode())

    def _spawn(self) -> None:
        reading, writing = os.pipe()
        try:
            self._pid = _spawn(reading)
        except OSError:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        os.set_blocking(writing, False)
        self._pipe = writing

    def _reap(self) -> None:
        deadline = time.monotonic() + _REAP_SECONDS
        with suppress(ChildProcessError):
            while self._pid and os.waitpid(self._pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
                time.sleep(0.001)
        self._pid = 0


def _spawn(reading: int) -> int:
    """Start it with that descriptor as its input, in a session of its own: no Ctrl-C of a terminal reaches it."""
    null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    line = ("sh", "-c", _SCRIPT, "hermes-supervisor")
    actions = [(os.POSIX_SPAWN_DUP2, reading, 0), *null]
    try:
        return os.posix_spawn("/bin/sh", line, {}, file_actions=actions, setsid=True)
    except NotImplementedError:
        return os.posix_spawn("/bin/sh", line, {}, file_actions=actions, setpgroup=0)
