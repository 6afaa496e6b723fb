"""Bubblewrap, the full sandbox backend: a command in mount, process and network namespaces of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hermes.tools.sandbox.profile import SandboxProfile, is_inside

#: Sockets and state of running services lie here. A command could ask them to act for it.
_SERVICES = ("/run", "/var/run")
#: What name look-ups need of it when the network is on.
_RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")


def bubblewrap_arguments(bwrap: str, profile: SandboxProfile, temporary: str, command: Sequence[str]) -> list[str]:
    """The command line that runs ``command`` in the sandbox. ``temporary`` is the folder that it sees as ``/tmp``."""
    arguments = [bwrap, "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    if not profile.network:
        arguments.append("--unshare-net")
    arguments += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", temporary, "/tmp"]
    arguments += _hide_services(profile)
    arguments += _bind_writable(profile, temporary)
    arguments += _hide(profile)
    return [*arguments, "--chdir", profile.workspace, "--", *command]


def _hide_services(profile: SandboxProfile) -> list[str]:
    real = dict.fromkeys(os.path.realpath(folder) for folder in _SERVICES if os.path.isdir(folder))
    arguments = [argument for folder in real for argument in ("--tmpfs", folder)]
    if profile.network:
        for path in filter(os.path.exists, _RESOLVER):
            arguments += ["--ro-bind", path, path]
    return arguments


def _bind_writable(profile: SandboxProfile, temporary: str) -> list[str]:
    """Writable folders first, then what stays read-only in them: a later mount lies on top of an earlier one."""
    if profile.mode == "read-only":
        # The private /tmp may cover the workspace.
        return ["--ro-bind", profile.workspace, profile.workspace]
    arguments: list[str] = []
    for folder in (profile.workspace, *profile.writable, *profile.pinned):
        # A pinned folder becomes a mount point, which cannot be renamed away.
        if os.path.isdir(folder) and folder != temporary:
            arguments += ["--bind", folder, folder]
    for path in profile.protected:
        arguments += _protect(path)
    return arguments


def _protect(path: str) -> list[str]:
    if os.path.islink(path):
        return []  # it is resolved where it leads to; the link itself lies in a writable folder
    if os.path.exists(path):
        return ["--ro-bind", path, path]
    # What is not there must not be made either, as far as a mount can prevent it: an empty read-only folder in its
    # place would be left behind on the disk, so a missing file is watched after the command instead.
    return []


def _hide(profile: SandboxProfile) -> list[str]:
    arguments: list[str] = []
    for path in profile.hidden:
        if is_inside(profile.workspace, path):
            # The workspace lies in it: hide everything and put the workspace back.
            arguments += ["--tmpfs", path]
            arguments += ["--bind" if profile.mode == "workspace" else "--ro-bind", *(profile.workspace,) * 2]
        elif os.path.isdir(path):
            arguments += ["--tmpfs", path]
        else:
            arguments += ["--ro-bind", "/dev/null", path]
    return arguments
