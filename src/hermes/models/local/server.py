"""The local model server: a child process that runs a model and answers on loopback while it has users.

It is started with ``python -m hermes.models.local.server``. Its settings come as one line on standard input,
which stays open until it is ready; one line on standard output says that it is, or what went wrong.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec


class ServerSettings(msgspec.Struct):
    """What the starting process says. The key comes this way because a command line is for all to see."""

    #: Where the state and the locks are.
    folder: str
    model: str
    name: str
    context_length: int
    threads: int
    key: str
    #: What has to be on the module path for the runtime.
    runtime: str
    #: Whether to look first how much of the model fits into which memory; a small one fits anyhow.
    fit: bool


class ServerState(msgspec.Struct):
    """How a running server is reached; only its user may read it."""

    pid: int
    base_url: str
    key: str
    model: str


STATE_FILE = "state.json"
USERS_FILE = "users"


def main() -> None:
    """Serve until the last user goes."""
    said = _take_over_output()
    try:
        settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=ServerSettings)
        server: Any = _serve(settings)
    except Exception as error:
        os.write(said, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    if _starter_is_gone():
        os._exit(0)
    address: str = server.listening_address
    path = Path(settings.folder, STATE_FILE)
    held = _publish(path, ServerState(os.getpid(), f"{address}/v1", settings.key, settings.model))
    os.write(said, b"ready\n")
    os.close(said)
    _wait_for_the_last_user(Path(settings.folder, USERS_FILE))
    _withdraw(path, held)
    # What else there is to tidy up goes with the process.
    os._exit(0)


def _take_over_output() -> int:
    """Keep standard output for the one line; what the runtime prints goes to the log, which is standard error."""
    said = os.dup(1)
    os.dup2(2, 1)
    return said


def _serve(settings: ServerSettings) -> Any:
    import resource

    os.umask(0o077)
    os.chdir("/")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold the key and what was said
    # Threads that spin while they wait make two busy cores a hundred times slower. Read when the library loads.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    if settings.runtime not in sys.path:
        sys.path.insert(0, settings.runtime)
    from importlib import import_module

    runtime: Any = import_module("xllamacpp")
    params = runtime.CommonParams()
    params.model.path = settings.model
    params.model_alias = {settings.name}
    params.n_ctx, params.n_parallel = settings.context_length, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings.threads
    _harden(params, settings.key)
    params.cache_ram_mib = 0  # else prompts are kept in up to 8 GiB
    params.warmup = False
    params.fit_params = settings.fit
    params.verbosity = 1
    try:
        return runtime.Server(params)
    except RuntimeError as error:
        raise RuntimeError(f"the runtime cannot run {settings.model} ({error})") from None


def _harden(params: Any, key: str) -> None:
    """Answer only requests with the key, and no web page at all. The defaults are the opposite."""
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [key]
    params.cors_origins = "http://127.0.0.1"
    params.ui = params.endpoint_slots = params.endpoint_props = params.endpoint_metrics = False
    params.offline = True


def _starter_is_gone() -> bool:
    """Whether the process that wanted this server died while the model was being loaded."""
    import select

    ready, _, _ = select.select([0], [], [], 0)
    return bool(ready) and os.read(0, 1) == b""


def _publish(path: Path, state: ServerState) -> int:
    """Say how the server is reached. The lock on the file says that it lives; the kernel lets go of it at its end."""
    import fcntl

    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    os.write(file, msgspec.json.encode(state))
    fresh.replace(path)
    return file


def _wait_for_the_last_user(users: Path) -> None:
    """Every user holds a shared lock. To get it alone is to be alone, however the others ended."""
    import fcntl

    file = os.open(users, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)


def _withdraw(path: Path, held: int) -> None:
    try:
        if os.path.samestat(path.stat(), os.fstat(held)):
            path.unlink()
    except OSError:
        return  # gone already


if __name__ == "__main__":
    main()
