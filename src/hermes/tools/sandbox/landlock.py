"""Landlock, the reduced sandbox backend: limits writes, reads of secrets and TCP with three Linux system calls.

It needs no namespaces and no helper program. It cannot make a path inside a writable folder read-only, and names of
hidden files stay visible, not their contents. A new file beside a hidden one can be written and not read.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

from hermes.tools.sandbox.profile import SandboxProfile, is_inside

T = TypeVar("T")

# System call numbers; the same on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38

# Access rights on files, with the ABI version that brought them.
_WRITE_FILE, _READ_FILE = 1 << 1, 1 << 2
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE = sum(1 << bit for bit in range(6, 13))
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_WRITE = {1: _WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE, 2: _REFER, 3: _TRUNCATE}
_FILE_WRITE = _WRITE_FILE | _TRUNCATE
#: Binding and connecting TCP sockets; abstract Unix sockets and signals to processes outside.
_TCP, _TCP_ABI = 3, 4
_SCOPES, _SCOPES_ABI = 3, 6

#: Written by every program: the null device, terminals, shared memory.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm")


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathAttributes(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def abi_version() -> int:
    """The version of Landlock that the kernel offers; 0 when it has none or has it switched off."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(_system_call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG)), 0)


def start_restricted(profile: SandboxProfile, temporary: str, start: Callable[[], T]) -> T:
    """Call ``start``, which starts a process, on a thread that is restricted first: the process inherits it.

    A restriction belongs to one thread for good, so the thread ends afterwards. Unlike code between fork and exec this
    is safe in a process with many threads. ``OSError`` when the kernel refuses.
    """
    return _start_after(lambda: _restrict_thread(profile, temporary), start)


def start_scoped(start: Callable[[], T]) -> T:
    """The same with no other limit than that abstract Unix sockets and signals do not reach what is outside."""
    return _start_after(_scope_thread, start)


def has_scopes() -> bool:
    """Whether the kernel has what ``start_scoped`` needs."""
    return abi_version() >= _SCOPES_ABI


def _start_after(restrict: Callable[[], None], start: Callable[[], T]) -> T:
    from concurrent.futures import ThreadPoolExecutor

    def work() -> T:
        restrict()
        return start()

    with ThreadPoolExecutor(1, "hermes-landlock") as thread:
        return thread.submit(work).result()


def readable_roots(hidden: tuple[str, ...], folder: str = "/") -> Iterator[str]:
    """The files and folders that together are everything below ``folder`` but ``hidden``."""
    if any(is_inside(folder, path) for path in hidden):
        return
    if not any(is_inside(path, folder) for path in hidden):
        yield folder
        return
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if not entry.is_symlink():  # what it leads to is found by its own path
            yield from readable_roots(hidden, entry.path)


def _readable(profile: SandboxProfile, temporary: str) -> Iterator[str]:
    yield from readable_roots(profile.hidden)
    # Caches and the workspace of a caller lie in the hidden home of Hermes, programs that are shown in a hidden home.
    is_workspace_hidden = any(is_inside(profile.workspace, path) for path in profile.hidden)
    for folder in (*((profile.workspace,) if is_workspace_hidden else ()), *profile.shown, *profile.caches):
        yield from readable_roots(tuple(path for path in profile.hidden if not is_inside(folder, path)), folder)
    yield temporary


def _restrict_thread(profile: SandboxProfile, temporary: str) -> None:
    version = abi_version()
    if version == 0:
        raise OSError("this kernel has no Landlock")
    write = sum(rights for since, rights in _WRITE.items() if since <= version)
    attributes = _RulesetAttributes(
        files=write | (_READ_FILE if profile.hidden else 0),
        net=0 if profile.network or version < _TCP_ABI else _TCP,
        scoped=_SCOPES if version >= _SCOPES_ABI else 0,
    )
    ruleset = _check(_system_call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0))
    try:
        writable = [temporary, *_DEVICES]
        for path in (*writable, *profile.roots()):
            _allow(ruleset, path, write)
        for path in _readable(profile, temporary) if profile.hidden else ():
            _allow(ruleset, path, _READ_FILE)
        _enforce(ruleset)
    finally:
        os.close(ruleset)


def _scope_thread() -> None:
    attributes = _RulesetAttributes(files=0, net=0, scoped=_SCOPES)
    ruleset = _check(_system_call(_CREATE_RULESET, ctypes.byref(attributes), ctypes.sizeof(attributes), 0))
    try:
        _enforce(ruleset)
    finally:
        os.close(ruleset)


def _enforce(ruleset: int) -> None:
    _check(_libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _check(_system_call(_RESTRICT_SELF, ruleset, 0))


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it is not there, or cannot be reached anyway
    try:
        if not os.path.isdir(path):
            rights &= _FILE_WRITE | _READ_FILE
        attributes = _PathAttributes(allowed=rights, folder=descriptor)
        _check(_system_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(attributes), 0))
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _system_call(number: int, *arguments: object) -> int:
    return int(_libc().syscall(ctypes.c_long(number), *arguments))


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
