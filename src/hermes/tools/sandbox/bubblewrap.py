"""Bubblewrap, the full sandbox backend: a command in mount, process and network namespaces of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hermes.tools.sandbox.profile import SandboxProfile, is_inside

#: The folder that a command sees its private temporary folder as.
TEMPORARY = "/tmp"

#: Sockets and state of running services lie here. A command could ask them to act for it.
_SERVICES = ("/run", "/var/run")
#: Folders whose content is another one in the sandbox.
COVERED = (TEMPORARY, *_SERVICES)
#: What name look-ups need of it when the network is on.
_RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")


#: The first process of the sandbox. The kernel ends all others with it, so nothing outlives the command, whatever it
#: started and however. bubblewrap's own first process would wait for the last of them. Its ``--die-with-parent`` would
#: end a background process with the thread of Hermes that started it. It alone keeps the descriptor that a program
#: before it may have opened.
KEPT_DESCRIPTOR = 9
_FIRST_PROCESS = ("/bin/sh", "-c", f'command -- "$@" {KEPT_DESCRIPTOR}>&-; exit $?', "sh")


def bubblewrap_arguments(
    bwrap: str,
    profile: SandboxProfile,
    temporary: str,
    command: Sequence[str],
    cwd: str = "",
    *,
    opener: Sequence[str] = (),
    blocks_namespaces: bool = False,
) -> list[str]:
    """The command line that runs ``command`` in the sandbox. ``temporary`` is the folder that it sees as ``/tmp``.

    ``opener`` is a program that runs before the first process, and becomes it. ``blocks_namespaces``: nothing in it can
    make user namespaces, in which it would have all rights again.

    A later mount lies on top of an earlier one, so the order is: everything read-only, what is hidden, the folders
    that may be changed, what stays read-only in them, what is hidden in them, the caches, which may lie in that.
    """
    arguments = [bwrap, *(("--unshare-user", "--disable-userns") if blocks_namespaces else ("--unshare-user-try",))]
    arguments += ["--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    # The superuser would otherwise keep its rights, and could uncover what is hidden.
    arguments += ["--cap-drop", "ALL"]
    if not profile.network:
        arguments.append("--unshare-net")
    arguments += [
        "--bind" if "/" in profile.roots() else "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        *_processes(),
        "--bind",
        temporary,
        TEMPORARY,
    ]
    arguments += _hide_services(profile)
    visible = (*profile.roots(), *profile.shown)
    inner = [path for path in profile.hidden if any(is_inside(path, folder) for folder in visible)]
    # What lies in a folder that is another one in the sandbox is not there anyway.
    outer = [path for path in profile.hidden if not any(is_inside(path, folder) for folder in (*visible, *COVERED))]
    arguments += [argument for path in outer for argument in _hide(path)]
    arguments += [argument for path in profile.shown if os.path.exists(path) for argument in ("--ro-bind", path, path)]
    arguments += _bind_folders(profile, temporary)
    arguments += [argument for path in inner for argument in _hide(path)]
    caches = [path for path in profile.caches if any(is_inside(path, folder) for folder in inner)]
    arguments += [argument for path in caches for argument in ("--bind", path, path)]
    return [*arguments, "--chdir", cwd or profile.workspace, "--", *opener, *_FIRST_PROCESS, *command]


def _processes() -> list[str]:
    """``/proc``. Settings of the kernel belong to the superuser, who needs no rights to change them."""
    if os.geteuid() == 0:
        return ["--proc", "/proc", "--remount-ro", "/proc"]
    return ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]


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
        # The root itself is mounted before everything that lies in it.
        if os.path.exists(folder) and folder not in (temporary, "/"):
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
