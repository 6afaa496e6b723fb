"""Bubblewrap, the full sandbox backend: a command in mount, process and network namespaces of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hermes.tools.sandbox.profile import SandboxProfile, is_inside

#: The folder that a command sees its private temporary folder as.
TEMPORARY = "/tmp"

#: Sockets and state of running services lie here. A command could ask them to act for it.
_SERVICES = ("/run", "/var/run")
#: What name look-ups need of it when the network is on.
_RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")


def bubblewrap_arguments(
    bwrap: str, profile: SandboxProfile, temporary: str, command: Sequence[str], cwd: str = ""
) -> list[str]:
    """The command line that runs ``command`` in the sandbox. ``temporary`` is the folder that it sees as ``/tmp``.

    A later mount lies on top of an earlier one, so the order is: everything read-only, what is hidden, the folders
    that may be changed, what stays read-only in them, what is hidden in them.
    """
    arguments = [bwrap, "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not profile.network:
        arguments.append("--unshare-net")
    arguments += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", temporary, TEMPORARY]
    arguments += _hide_services(profile)
    visible = (*profile.roots(), *profile.shown)
    inner = [path for path in profile.hidden if any(is_inside(path, folder) for folder in visible)]
    arguments += [argument for path in profile.hidden if path not in inner for argument in _hide(path)]
    arguments += [argument for path in profile.shown if os.path.exists(path) for argument in ("--ro-bind", path, path)]
    arguments += _bind_folders(profile, temporary)
    arguments += [argument for path in inner for argument in _hide(path)]
    return [*arguments, "--chdir", cwd or profile.workspace, "--", *command]


def _hide_services(profile: SandboxProfile) -> list[str]:
    real = dict.fromkeys(os.path.realpath(folder) for folder in _SERVICES if os.path.isdir(folder))
    arguments = [argument for folder in real for argument in ("--tmpfs", folder)]
    if profile.network:
        for path in filter(os.path.exists, _RESOLVER):
            arguments += ["--ro-bind", path, path]
    return arguments


def _bind_folders(profile: SandboxProfile, temporary: str) -> list[str]:
    if profile.mode == "read-only":
        # The private /tmp or a hidden folder may cover the workspace.
        return ["--ro-bind", profile.workspace, profile.workspace]
    arguments: list[str] = []
    for folder in (*profile.roots(), *profile.pinned):
        # A pinned folder becomes a mount point, which cannot be renamed away.
        if os.path.isdir(folder) and folder != temporary:
            arguments += ["--bind", folder, folder]
    for path in profile.protected:
        # A link is resolved where it leads to. What is not there yet cannot be covered by a mount without leaving an
        # empty file behind, so it is looked for after the command.
        if os.path.exists(path) and not os.path.islink(path):
            arguments += ["--ro-bind", path, path]
    return arguments


def _hide(path: str) -> list[str]:
    if os.path.isdir(path):
        return ["--tmpfs", path]
    return ["--ro-bind", "/dev/null", path] if os.path.lexists(path) else []
