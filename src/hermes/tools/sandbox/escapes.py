"""Escapes: tries every known way out of the sandbox on canaries, for ``hermes doctor``. Nothing else is touched."""

from __future__ import annotations

import os
import select
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL

import msgspec

from hermes.tools.sandbox.backend import SandboxBackend, run_probe
from hermes.tools.sandbox.profile import SandboxProfile

_CANARY = "hermes-canary"
_END_MS = 5_000
#: Runs in the sandbox. It prints the ways that worked, as far as they show inside, as JSON.
_ATTEMPTS = """\
import ctypes, json, os, signal, socket, sys
hidden, outside, process, abstract = sys.argv[1:]
libc, worked = ctypes.CDLL(None), []
def succeeds(work):
    try:
        work()
    except Exception:
        return False
    return True
def opens(path):
    # Opened and closed again: nothing is changed.
    return succeeds(lambda: os.close(os.open(path, os.O_WRONLY)))
def connect():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\\0" + abstract)
libc.umount2(hidden.encode(), 2)
folder = outside + "/"
while folder:  # one of them is a mount; what can be written becomes visible below
    folder = folder.rpartition("/")[0]
    libc.mount(None, (folder or "/").encode(), None, 32 | 4096, None)
if succeeds(lambda: open(hidden + "/key").read()):
    worked.append("a hidden folder was uncovered")
succeeds(lambda: open(outside + "/written", "w").close())
if any(map(opens, ("/proc/sys/vm/swappiness", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"))):
    worked.append("settings of the kernel can be changed")
if any(map(opens, ("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/uevent_helper", "/sys/power/state"))):
    worked.append("settings of devices can be changed")
with open("/proc/self/status") as file:
    if any(line.startswith("CapEff:") and int(line.split()[1], 16) for line in file):
        worked.append("it has rights of the superuser")
# The number may be that of a process inside; whether the one outside lives is seen there.
if int(process) != os.getpid():
    succeeds(lambda: os.kill(int(process), signal.SIGTERM))
if succeeds(connect):
    worked.append("abstract sockets of the machine can be reached")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(1)
        os.close(2)
        signal.pause()
    os._exit(0)
os.wait()
child = os.fork()
if child == 0:
    os._exit(libc.unshare(0x10000000) != 0)
if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
    worked.append("user namespaces can be made")
sys.stdout.write(json.dumps(worked))
"""


def open_ways(backend: SandboxBackend) -> list[str]:
    """The ways out of the sandbox that worked, each a few words; also when they could not be tried."""
    with tempfile.TemporaryDirectory(prefix="hermes-probe-", dir=_folder()) as name:
        return _Trial(backend, os.path.realpath(name)).run()


def _folder() -> str | None:
    """Not below /tmp where that is possible: bubblewrap replaces it, and a folder there would be hidden anyway."""
    return next((path for path in ("/var/tmp", os.path.expanduser("~")) if os.access(path, os.W_OK)), None)


class _Trial:
    def __init__(self, backend: SandboxBackend, folder: str) -> None:
        self._backend = backend
        self._folder = folder
        self._output = os.path.join(folder, "output")

    def run(self) -> list[str]:
        inside, outside, hidden, temporary = (
            os.path.join(self._folder, name) for name in ("inside", "outside", "hidden", "tmp")
        )
        for path in (inside, outside, hidden, temporary):
            os.mkdir(path)
        Path(hidden, "key").write_text(_CANARY)
        abstract = f"{_CANARY}-{os.urandom(8).hex()}"
        python = os.path.realpath(sys.executable)
        shown = tuple(dict.fromkeys(map(os.path.realpath, (sys.prefix, sys.base_prefix))))
        profile = SandboxProfile("workspace", inside, hidden=(hidden,), shown=shown, network=True)
        process = os.posix_spawn("/bin/sh", ["sh", "-c", "exec sleep 600"], {}, file_actions=_SILENT, setsid=True)
        # Everything in the sandbox holds the writing end: when all of it has ended, reading ends.
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(f"\0{abstract}")
                listener.listen(1)
                line = [python, "-I", "-S", "-c", _ATTEMPTS, hidden, outside, str(process), abstract]
                code = self._backend.start(profile, temporary, line, lambda line: run_probe(line, self._output))
            os.close(writing)
            worked = self._reported(code)
            if os.path.exists(os.path.join(outside, "written")):
                worked.append("a folder outside of the workspace was changed")
            if os.waitpid(process, os.WNOHANG)[0]:
                worked.append("a process outside was ended")
            if not _ends(reading):
                worked.append("a process outlived its command")
            return worked
        except OSError as error:
            return [f"it could not be tried out: {error}"]
        finally:
            os.close(reading)
            with suppress(OSError):
                os.kill(process, SIGKILL)
                os.waitpid(process, 0)

    def _reported(self, code: int) -> list[str]:
        printed = Path(self._output).read_bytes() if os.path.exists(self._output) else b""
        try:
            return msgspec.json.decode(printed, type=list[str])
        except msgspec.DecodeError:
            said = printed.decode("utf-8", "replace").strip()[-200:]
            return [f"it could not be tried out: {said or f'exit code {code}'}"]


_SILENT = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]


def _ends(reading: int) -> bool:
    """Whether nobody can write to the pipe any more. The kernel needs a moment to end the processes of a sandbox."""
    poller = select.poll()
    poller.register(reading, select.POLLIN)
    return bool(poller.poll(_END_MS))
