"""Checks of ``config.yaml`` and ``.env``: can they be read, and does everything in them mean something?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from hermes.cli.doctor.finding import Finding, broken, ok, warning
from hermes.cli.doctor.patient import Patient
from hermes.cli.model.problems import told
from hermes.commands.wording import plural
from hermes.config import config_path, env_path

#: Spellings that are understood, and the one the documentation uses.
OLDER_SPELLINGS: dict[tuple[str, ...], str] = {
    ("model", "model"): "model.default",
    ("model", "name"): "model.default",
    ("model", "api_base"): "model.base_url",
    ("provider",): "model.provider",
    ("base_url",): "model.base_url",
    ("api_base",): "model.base_url",
    ("custom_providers",): "providers",
    ("fallback_model",): "fallback_providers",
}

_EDIT = "hermes config edit"
_UNSET = re.compile(r"refers to \$\{(\w+)\}")


def check_env_file(patient: Patient) -> Iterator[Finding]:
    """The lines of ``.env``. Who can read it is told elsewhere."""
    path = env_path(patient.home)
    if patient.env_error is not None:
        yield broken(".env", *told(patient.env_error))
        return
    complaints = [line for line in patient.env_warnings if "chmod" not in line]
    for complaint in complaints:
        yield warning(".env", complaint, f"correct or remove that line of {path}")
    if not path.exists():
        yield ok(".env", "there is none")
    elif not complaints:
        yield ok(".env", f"{path}, {plural(len(patient.env_file), 'variable')}")


def check_config(patient: Patient) -> Iterator[Finding]:
    """The file as a whole, then every setting in it that is not right."""
    if patient.config_error is not None:
        yield from _problems(str(patient.config_error))
        return
    loaded = patient.loaded
    if loaded is None:
        return
    if not loaded.path.exists():
        yield ok("config.yaml", "there is none; every setting has its default")
    elif not loaded.warnings:
        yield ok("config.yaml", str(loaded.path))
    for text in loaded.warnings:
        yield _warning(text.removeprefix(f"{loaded.path}: "), patient)


def check_spellings(patient: Patient) -> Iterator[Finding]:
    """Names that are still understood and no longer documented."""
    patient.settings()
    document: dict[str, Any] = patient.loaded.raw if patient.loaded else {}
    for path, now in OLDER_SPELLINGS.items():
        section: Any = document if len(path) == 1 else document.get(path[0])
        if isinstance(section, dict) and path[-1] in cast("dict[str, Any]", section):
            yield warning("spelling", f"{'.'.join(path)} is understood as {now}", f"write {now}", command=_EDIT)


def _problems(text: str) -> Iterator[Finding]:
    """One finding for each setting: the error has them in lines of their own below a heading."""
    heading, *problems = text.split("\n")
    for problem in problems or [heading]:
        place, found, rest = problem.strip().partition(": found ")
        if found:
            what, _, allowed = rest.partition("; allowed: ")
            yield broken(
                "config.yaml", f"{place}: found {what}", f"allowed: {allowed}" if allowed else "", command=_EDIT
            )
        else:
            yield broken("config.yaml", problem.strip(), "correct the file", command=_EDIT)


def _warning(text: str, patient: Patient) -> Finding:
    unset = _UNSET.search(text)
    if unset:
        return warning("config.yaml", text, f"set {unset[1]} in {env_path(patient.home)}, or export it")
    detail, _, hint = text.partition("; ")
    if hint:
        return warning("config.yaml", detail, hint, command=_EDIT)
    return warning("config.yaml", detail, f"remove what is not meant from {config_path(patient.home)}", command=_EDIT)
