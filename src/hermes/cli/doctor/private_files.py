"""Checks who else can read the files that hold secrets and conversations."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from hermes.cli.doctor.finding import Finding, broken, ok, warning
from hermes.cli.doctor.patient import Patient
from hermes.config import config_path, env_path

_PRIVATE = 0o600
_OTHERS = 0o077
_WRITABLE = 0o022


def check_permissions(patient: Patient) -> Iterator[Finding]:
    """Keys and conversations are for their owner alone."""
    keys = [env_path(patient.home), patient.home / "auth.json"]
    if patient.key_values() or patient.config is None:
        keys.append(config_path(patient.home))
    records = [patient.database, patient.home / "search.db"]
    found = [finding for path in keys for finding in _check(path, patient, holds_keys=True)]
    found += [finding for path in records for finding in _check(path, patient, holds_keys=False)]
    found += _check_home(patient)
    yield from found or [ok("secret files", "none that others can read")]


def _check_home(patient: Patient) -> Iterator[Finding]:
    """Who may write to the folder may put another file in the place of a private one."""
    if not patient.home.is_dir():
        return
    mode = stat.S_IMODE(patient.home.stat().st_mode)
    if not mode & _WRITABLE:
        return
    if patient.fix and _set_mode(patient.home, mode & ~_WRITABLE):
        yield ok("secret files", f"others could write to {patient.home} and no longer can", fixed=True)
        return
    detail = f"others on this machine can write to {patient.home} (mode {mode:04o})"
    yield broken("secret files", detail, command=f"chmod go-w {shlex.quote(str(patient.home))}", fixable=True)


def _check(path: Path, patient: Patient, *, holds_keys: bool) -> Iterator[Finding]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        yield broken("secret files", f"{path} cannot be looked at: {error.strerror}", "check the folders above it")
        return
    if not stat.S_IMODE(status.st_mode) & _OTHERS:
        return
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if patient.fix and _set_mode(path, _PRIVATE):
        yield ok("secret files", f"{path} had the mode {mode} and has 0600 now", fixed=True)
        return
    what = "holds keys" if holds_keys else "holds conversations"
    detail = f"{path} {what} and others on this machine can read it (mode {mode})"
    if status.st_uid != os.geteuid():
        yield warning("secret files", f"{detail}; it belongs to another user", "have its owner run chmod 600 on it")
        return
    told = broken if holds_keys else warning
    yield told("secret files", detail, command=f"chmod 600 {shlex.quote(str(path))}", fixable=True)


def _set_mode(path: Path, mode: int) -> bool:
    try:
        path.chmod(mode)
    except OSError:
        return False
    return True
