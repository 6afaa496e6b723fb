"""Sandbox backends: chooses bubblewrap or Landlock by a functional probe, and starts commands in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from hermes.base.config.files import write_private_document
from hermes.base.errors import ConfigError
from hermes.base.version import __version__
from hermes.tools.sandbox.owner.program import find_bubblewrap

if TYPE_CHECKING:
    from hermes.tools.sandbox.profile import SandboxProfile

# Profiles and backends are imported where a command is started: a run that starts none only reads the stored probe.

T = TypeVar("T")

BackendName = Literal["bubblewrap", "landlock"]

_PROBE_SECONDS = 10.0


class SandboxBackend(msgspec.Struct, frozen=True):
    """A way to confine commands that works on this machine."""

    name: BackendName
    #: The program of bubblewrap.
    program: str = ""
    #: Nothing in the sandbox of bubblewrap can make user namespaces.
    blocks_namespaces: bool = False
    #: Landlock keeps abstract Unix sockets of the machine out of the sandbox of bubblewrap, also with its network on.
    scopes_sockets: bool = False

    @property
    def is_reduced(self) -> bool:
        """Whether parts of a profile cannot be enforced: protected paths inside the workspace."""
        return self.name == "landlock"

    def command_line(
        self,
        profile: SandboxProfile,
        temporary: str,
        command: Sequence[str],
        cwd: str = "",
        opener: Sequence[str] = (),
    ) -> Sequence[str]:
        """The command line that runs ``command`` in the sandbox, if it is started by way of ``limited``.

        ``temporary`` is a private folder: the command's ``TMPDIR``, and with bubblewrap its ``/tmp``. ``cwd`` is the
        directory that the command starts in, as it sees it; with Landlock the one who starts it has to see to that.
        ``opener`` is a program that runs in the sandbox first, and becomes the command it is given.
        """
        if self.name == "landlock":
            return command
        from hermes.tools.sandbox.bubblewrap import bubblewrap_arguments

        blocks = self.blocks_namespaces
        return bubblewrap_arguments(
            self.program, profile, temporary, command, cwd, opener=opener, blocks_namespaces=blocks
        )

    def start(
        self, profile: SandboxProfile, temporary: str, arguments: Sequence[str], start: Callable[[Sequence[str]], T]
    ) -> T:
        """Start a process confined to ``profile`` as it is now; ``start`` takes the command line to run."""
        profile = profile.as_of_now()
        line = self.command_line(profile, temporary, arguments)
        return self.limited(profile, temporary, lambda: start(line))

    def limited(self, profile: SandboxProfile, temporary: str, start: Callable[[], T]) -> T:
        """Call ``start``, which starts a process with that command line, under the limits that it inherits."""
        if self.name == "bubblewrap" and not self.scopes_sockets:
            return start()
        from hermes.tools.sandbox.landlock import start_restricted, start_scoped  # brings ctypes along

        if self.name == "bubblewrap":
            return start_scoped(start)
        return start_restricted(profile, temporary, start)


class SandboxProbe(msgspec.Struct, frozen=True):
    """What a probe of this machine found: a backend, or why there is none."""

    backend: SandboxBackend | None
    #: One sentence for ``hermes doctor`` and the start line.
    summary: str


def stored_probe(cache: Path | None) -> SandboxProbe | None:
    """The result that is stored in the file, if it is about this machine as it is now."""
    if cache is None:
        return None
    with suppress(OSError, msgspec.DecodeError, msgspec.ValidationError):
        stored = msgspec.json.decode(cache.read_bytes(), type=_StoredProbe)
        if stored.key == _machine():
            return stored.probe
    return None


def cached_probe(cache: Path | None) -> SandboxProbe:
    """The stored result, or a new one, which is then stored."""
    found = stored_probe(cache)
    if found is None:
        found = probe()
        store_probe(cache, found)
    return found


def store_probe(cache: Path | None, found: SandboxProbe) -> None:
    """Store a result for ``cached_probe``. A file that cannot be written is no problem: the next run probes again."""
    if cache is None:
        return
    with suppress(OSError, ConfigError):
        cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private_document(cache, _StoredProbe(_machine(), found))


class _StoredProbe(msgspec.Struct):
    key: str
    probe: SandboxProbe


def _machine() -> str:
    """Changes with everything that a result depends on: this version, the kernel, the boot, the user, the program."""
    boot = ""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    program = find_bubblewrap()
    changed = os.stat(program).st_mtime_ns if program else 0
    return f"{__version__} {os.uname().release} {boot} {os.geteuid()} {program} {changed}"


def probe() -> SandboxProbe:
    """Try the backends, the full one first."""
    if sys.platform == "darwin":
        return SandboxProbe(None, "there is no sandbox for macOS yet")
    reasons: list[str] = []
    program = find_bubblewrap()
    if program is None:
        reasons.append("bubblewrap is not installed (Debian and Ubuntu: apt install bubblewrap)")
    else:
        found = _try_bubblewrap(program)
        if isinstance(found, SandboxBackend):
            return SandboxProbe(found, f"bubblewrap ({program})")
        reasons.append(f"bubblewrap does not work here: {found}")
    from hermes.tools.sandbox.landlock import abi_version

    version = abi_version()
    if version == 0:
        reasons.append("the kernel has no Landlock")
    elif problem := _problem_with(backend := SandboxBackend("landlock")):
        reasons.append(f"Landlock does not work here: {problem}")
    else:
        return SandboxProbe(backend, f"reduced: Landlock, version {version} ({'; '.join(reasons)})")
    return SandboxProbe(None, "; ".join(reasons))


def _try_bubblewrap(program: str) -> SandboxBackend | str:
    """bubblewrap with as many of its limits as work here, or what is wrong."""
    from hermes.tools.sandbox.landlock import has_scopes

    scopes = has_scopes()
    # Older versions cannot block namespaces, and one that is setuid takes no limits from Landlock.
    tries = dict.fromkeys([(True, scopes), (False, scopes), (True, False), (False, False)])
    problem = ""
    for blocks_namespaces, scopes_sockets in tries:
        backend = SandboxBackend("bubblewrap", program, blocks_namespaces, scopes_sockets)
        problem = _problem_with(backend)
        if problem is None:
            return backend
    return problem or ""


def _problem_with(backend: SandboxBackend) -> str | None:
    """Run a command that writes inside and outside of its workspace; why the result is wrong, or None."""
    import tempfile

    from hermes.tools.sandbox.profile import SandboxProfile

    with tempfile.TemporaryDirectory(prefix="hermes-probe-") as folder:
        inside, outside, temporary = (os.path.join(folder, name) for name in ("inside", "outside", "tmp"))
        for path in (inside, outside, temporary):
            os.mkdir(path)
        # bubblewrap replaces /tmp, so the folders are looked at afterwards from here.
        script = 'echo x > "$0/file" || exit 3; echo x > "$1/file" 2>/dev/null; exit 0'
        profile = SandboxProfile("workspace", os.path.realpath(inside))
        errors = os.path.join(folder, "errors")
        arguments = ["/bin/sh", "-c", script, inside, outside]
        try:
            code = backend.start(profile, temporary, arguments, lambda line: run_probe(line, errors))
        except OSError as error:
            return str(error)
        if code != 0 or not os.path.exists(os.path.join(inside, "file")):
            return Path(errors).read_text("utf-8", "replace").strip()[:300] or f"exit code {code}"
        return "it does not limit writes" if os.path.exists(os.path.join(outside, "file")) else None


def run_probe(arguments: Sequence[str], output: str) -> int:
    """Run a program with its output in a file; its exit code. One that takes too long is killed.

    Not with ``subprocess``, which a plugin may have changed: a sandbox that only seems not to work would be left out.
    """
    import time

    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(arguments[0], list(arguments), os.environ, file_actions=actions, setsid=True)
    deadline = time.monotonic() + _PROBE_SECONDS
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.killpg(pid, SIGKILL)
            os.waitpid(pid, 0)
            raise TimeoutError(f"{arguments[0]} took longer than {_PROBE_SECONDS:g} s")
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(ended[1])
