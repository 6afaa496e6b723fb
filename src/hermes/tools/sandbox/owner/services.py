"""Services of the machine that a command could ask to act for it: closed, unless the owner passed one on."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping

from hermes.tools.sandbox.profile import is_socket

#: Variables that lead to agents, containers and desktops. Named in ``terminal.env_passthrough``, they stay.
SERVICE_VARIABLES = tuple(
    (
        "SSH_AUTH_SOCK SSH_AGENT_PID DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR DOCKER_HOST CONTAINER_HOST DISPLAY "
        "WAYLAND_DISPLAY XAUTHORITY"
    ).split()
)
#: Those whose value is the address of a socket.
_SOCKETS = ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "CONTAINER_HOST")
#: What the program ``ssh`` needs beside its agent. Neither is a key.
_OF_SSH = (".ssh/config", ".ssh/known_hosts", ".ssh/known_hosts2")


def passed_sockets(passed: Collection[str], environ: Mapping[str, str], home: str) -> Iterator[str]:
    """The files that lead to the services which the owner passed on."""
    yield from _paths([name for name in _SOCKETS if name in passed], environ)
    if "SSH_AUTH_SOCK" in passed:
        yield from filter(os.path.exists, (os.path.join(home, name) for name in _OF_SSH))


def closed_sockets(passed: Collection[str], environ: Mapping[str, str]) -> Iterator[str]:
    """The sockets of the services which the owner did not pass on, wherever they are."""
    return filter(is_socket, _paths([name for name in _SOCKETS if name not in passed], environ))


def _paths(names: Iterable[str], environ: Mapping[str, str]) -> Iterator[str]:
    for name in names:
        address = environ.get(name, "")
        path = address.partition("unix:")[2].removeprefix("path=").partition(",")[0] if ":" in address else address
        if path:
            yield os.path.normpath(f"/{path.lstrip('/')}")
