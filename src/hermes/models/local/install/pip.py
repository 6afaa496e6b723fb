"""Runs pip for the running Python: its output goes to a log, its failures become error messages."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hermes.base.errors import HermesError

#: Told how many bytes have arrived.
OnProgress = Callable[[int], None]

_LOOK_EVERY = 0.2
#: Twice verbose, or it does not report that no index could be reached.
_ALWAYS = ("--no-input", "--disable-pip-version-check", "-vv")
_ADDRESS = re.compile(r"[a-z+]+://\S+")
#: What the output says, and what it means. The first that is found counts.
_MEANINGS = (
    (
        r"NewConnectionError|Failed to establish|name resolution|Connection refused|Network is unreachable"
        r"|Connection ?Timeout|ConnectTimeoutError|timed out|ProxyError|Max retries exceeded|ConnectionError",
        "the package index cannot be reached; check the network and pip's settings (proxy, index-url), then try again",
    ),
    (r"CERTIFICATE_VERIFY_FAILED|SSLError", "the certificate of the package index is not trusted (see pip's --cert)"),
    (r"No space left on device", "the disk is full; about 400 MB are needed for a moment"),
    (r"externally-managed-environment", "this Python is managed by the system and takes no packages"),
    (r"Permission denied", "a folder cannot be written"),
    (
        r"No matching distribution found|Could not find a version",
        "the package index has no build for this system: Linux with glibc or macOS 13, on x86-64 or arm64, have one",
    ),
)


def command() -> list[str]:
    """How pip is called. An environment without one borrows the copy that Python brings along for new environments."""
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    wheels = [wheel for folder in _wheel_folders() for wheel in sorted(folder.glob("pip-*.whl"))]
    if not wheels:
        raise HermesError(
            f"there is no pip for {sys.executable}; install one ('{sys.executable} -m ensurepip', or the system's "
            f"package python3-pip), then try again"
        )
    return [sys.executable, str(wheels[-1] / "pip")]


def _wheel_folders() -> list[Path]:
    """Where Python keeps the wheels for new environments: beside ``ensurepip``, or where the system puts them."""
    import sysconfig
    from importlib.util import find_spec

    spec = find_spec("ensurepip")
    if spec is None or not spec.origin:
        return []
    packaged = sysconfig.get_config_var("WHEEL_PKG_DIR")
    return [Path(spec.origin).parent / "_bundled", *([Path(packaged)] if packaged else [])]


def run(arguments: Sequence[str], *, folder: Path, on_progress: OnProgress | None = None) -> None:
    """Run pip with its log and its temporary files in ``folder``. Raises ``HermesError`` that says what is wrong."""
    log, staging = folder / "install.log", folder / "tmp"
    staging.mkdir(mode=0o700, exist_ok=True)
    env = {**os.environ, "TMPDIR": str(staging), "PIP_USER": "0", "PYTHONUNBUFFERED": "1"}
    try:
        with log.open("w", encoding="utf-8") as output:
            log.chmod(0o600)
            child = subprocess.Popen(
                [*command(), *arguments, *_ALWAYS], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env
            )
            code = _watch(child, staging, on_progress)
        if code != 0:
            raise HermesError(f"{_meaning(log, code)}. What pip said is in {log}")
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _watch(child: subprocess.Popen[bytes], staging: Path, on_progress: OnProgress | None) -> int:
    """Wait, telling how much has arrived; what pip downloads lies in its folder for temporary files."""
    try:
        while child.poll() is None:
            if on_progress is not None:
                on_progress(_size(staging))
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_LOOK_EVERY)
    except BaseException:
        child.terminate()
        child.wait()
        raise
    return child.returncode


def _size(folder: Path) -> int:
    """The bytes in a folder, in which files and folders come and go meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(place, name).stat().st_size
    return total


def _meaning(log: Path, code: int) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, text):
            return meaning
    errors = [line.removeprefix("ERROR:").strip() for line in text.splitlines() if line.startswith("ERROR:")]
    said = _ADDRESS.sub("…", errors[-1]) if errors else f"pip ended with code {code}"
    return f"the packages could not be installed ({said})"
