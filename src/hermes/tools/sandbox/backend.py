"""Sandbox backends: chooses bubblewrap or Landlock by a functional probe, and starts commands in it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from hermes.tools.sandbox.bubblewrap import bubblewrap_arguments
from hermes.tools.sandbox.landlock import abi_version, start_restricted
from hermes.tools.sandbox.profile import SandboxProfile

T = TypeVar("T")

BackendName = Literal["bubblewrap", "landlock"]

_PROBE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SandboxBackend:
    """A way to confine commands that works on this machine."""

    name: BackendName
    #: The program of bubblewrap.
    program: str = ""

    @property
    def is_reduced(self) -> bool:
        """Whether parts of a profile cannot be enforced: protected paths inside the workspace."""
        return self.name == "landlock"

    def start(
        self,
        profile: SandboxProfile,
        temporary: str,
        arguments: Sequence[str],
        start: Callable[[Sequence[str]], T],
    ) -> T:
        """Start a process confined to ``profile``; ``start`` takes the command line to run.

        ``temporary`` is a private folder: the command's ``TMPDIR``, and with bubblewrap its ``/tmp``.
        """
        if self.name == "bubblewrap":
            return start(bubblewrap_arguments(self.program, profile, temporary, arguments))
        return start_restricted(profile, temporary, lambda: start(arguments))


@dataclass(frozen=True, slots=True)
class SandboxProbe:
    """What a probe of this machine found: a backend, or why there is none."""

    backend: SandboxBackend | None
    #: One sentence for ``hermes doctor`` and the start line.
    summary: str


def probe(*, outside_of: str = "") -> SandboxProbe:
    """Try the backends, the full one first. A ``bwrap`` inside ``outside_of`` (the workspace) is not trusted."""
    if sys.platform == "darwin":
        return SandboxProbe(None, "there is no sandbox for macOS yet")
    reasons: list[str] = []
    program = _find_bwrap(outside_of)
    if program is None:
        reasons.append("bubblewrap is not installed (Debian and Ubuntu: apt install bubblewrap)")
    else:
        backend = SandboxBackend("bubblewrap", program)
        problem = _problem_with(backend)
        if problem is None:
            return SandboxProbe(backend, f"bubblewrap ({program})")
        reasons.append(f"bubblewrap does not work here: {problem}")
    version = abi_version()
    if version == 0:
        reasons.append("the kernel has no Landlock")
        return SandboxProbe(None, "; ".join(reasons))
    backend = SandboxBackend("landlock")
    problem = _problem_with(backend)
    if problem is None:
        return SandboxProbe(backend, f"reduced: Landlock, version {version} ({'; '.join(reasons)})")
    reasons.append(f"Landlock does not work here: {problem}")
    return SandboxProbe(None, "; ".join(reasons))


def _find_bwrap(outside_of: str) -> str | None:
    found = shutil.which("bwrap")
    if found is None or (outside_of and os.path.realpath(found).startswith(outside_of.rstrip("/") + "/")):
        return None
    return found


def _problem_with(backend: SandboxBackend) -> str | None:
    """Run a command that writes inside and outside of its workspace; why the result is wrong, or None."""
    import subprocess

    with tempfile.TemporaryDirectory(prefix="hermes-probe-") as folder:
        inside, outside, temporary = (os.path.join(folder, name) for name in ("inside", "outside", "tmp"))
        for path in (inside, outside, temporary):
            os.mkdir(path)
        # bubblewrap replaces /tmp, so the folders are looked at afterwards from here.
        script = 'echo x > "$0/file" || exit 3; echo x > "$1/file" 2>/dev/null; exit 0'
        profile = SandboxProfile("workspace", os.path.realpath(inside))

        def start(arguments: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(arguments, capture_output=True, timeout=_PROBE_SECONDS, check=False)

        try:
            done = backend.start(profile, temporary, ["/bin/sh", "-c", script, inside, outside], start)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode != 0 or not os.path.exists(os.path.join(inside, "file")):
            return done.stderr.decode("utf-8", "replace").strip()[:300] or f"exit code {done.returncode}"
        return "it does not limit writes" if os.path.exists(os.path.join(outside, "file")) else None
