"""Settings of the NeMo Relay exporter: what the environment asks it to export, and where to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes.trace.otel.variables import ExporterVariables

PREFIX = "HERMES_NEMO_RELAY_"

ATOF_FOLDER = ".nemo-relay/atof"
ATOF_FILENAME = "events.jsonl"
ATIF_FOLDER = ".nemo-relay/atif"
ATIF_TEMPLATE = "trajectory-{session_id}.json"
AGENT_NAME = "Hermes Agent"

_PLACEHOLDER = "{session_id}"


@dataclass(frozen=True, slots=True)
class AtofFile:
    """The file that takes the events."""

    folder: Path
    filename: str = ATOF_FILENAME
    overwrite: bool = False


@dataclass(frozen=True, slots=True)
class AtifFiles:
    """The files that take the trajectories, one for each session that is not a child."""

    folder: Path
    template: str = ATIF_TEMPLATE
    agent_name: str = AGENT_NAME
    #: Empty for the version of the runtime.
    agent_version: str = ""
    #: Empty for the model that the session uses.
    model_name: str = ""
    #: Whether each child agent gets a file of its own too.
    children_too: bool = False


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """Everything the environment says. ``remarks`` are one line each on what it says in vain."""

    atof: AtofFile | None = None
    atif: AtifFiles | None = None
    plugins_toml: Path | None = None
    #: Whether every model call shows its whole conversation again, instead of what is new in it.
    full_requests: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def asks_for_something(self) -> bool:
        return self.atof is not None or self.atif is not None or self.plugins_toml is not None


def read_settings(env: Mapping[str, str], cwd: Path) -> RelaySettings:
    """The settings in an environment. Relative folders are looked for in ``cwd``, from now on."""
    given, remarks = ExporterVariables(env, (PREFIX,)), list[str]()
    toml = given.text("plugins_toml")
    return RelaySettings(
        atof=_atof(given, cwd, remarks) if given.switch("atof_enabled") else None,
        atif=_atif(given, cwd, remarks) if given.switch("atif_enabled") else None,
        plugins_toml=absolute(toml, cwd) if toml else None,
        full_requests=given.switch("full_requests"),
        remarks=tuple(remarks),
    )


def _atof(given: ExporterVariables, cwd: Path, remarks: list[str]) -> AtofFile:
    filename = given.text("atof_filename") or ATOF_FILENAME
    if not is_plain_name(filename):
        expected = f"a name without folders is expected, {ATOF_FILENAME} is used"
        remarks.append(f"{PREFIX}ATOF_FILENAME is {filename!r}; {expected}")
        filename = ATOF_FILENAME
    return AtofFile(
        absolute(given.text("atof_output_directory") or ATOF_FOLDER, cwd),
        filename,
        overwrite=_mode(given, "ATOF_MODE", ("append", "overwrite"), remarks) == "overwrite",
    )


def _atif(given: ExporterVariables, cwd: Path, remarks: list[str]) -> AtifFiles:
    template = given.text("atif_filename_template")
    return AtifFiles(
        absolute(given.text("atif_output_directory") or ATIF_FOLDER, cwd),
        checked_template(template, f"{PREFIX}ATIF_FILENAME_TEMPLATE", remarks),
        given.text("atif_agent_name") or AGENT_NAME,
        given.text("atif_agent_version"),
        given.text("atif_model_name"),
        children_too=_mode(given, "ATIF_SUBAGENT_EXPORT_MODE", ("embedded", "all"), remarks) == "all",
    )


def _mode(given: ExporterVariables, name: str, allowed: tuple[str, str], remarks: list[str]) -> str:
    word = given.text(name).lower()
    if word and word not in allowed:
        remarks.append(f"{PREFIX}{name} is {word!r}; {' or '.join(allowed)} is expected, {allowed[0]} is used")
    return word


def absolute(folder: str, cwd: Path) -> Path:
    """Where a path leads, without ``..`` in it: the runtime refuses those."""
    # Not ``resolve``: a folder may be a link, and one that leads in a circle is found out when it is used.
    return Path(os.path.abspath(cwd / Path(folder).expanduser()))  # noqa: PTH100


def is_plain_name(name: str) -> bool:
    """Whether a name stays in the folder it is put into."""
    return name not in (".", "..") and "/" not in name and os.sep not in name and "\0" not in name


def checked_template(template: str, what: str, remarks: list[str]) -> str:
    """The template, with a remark when it puts all sessions into one file; the default when it is no file name."""
    if not template:
        return ATIF_TEMPLATE
    rest = template.replace(_PLACEHOLDER, "", 1)
    if "{" in rest or "}" in rest or not is_plain_name(rest or "_"):
        remarks.append(
            f"{what} is {template!r}; a file name with {_PLACEHOLDER} in it, and no other braces, is expected, "
            f"{ATIF_TEMPLATE} is used"
        )
        return ATIF_TEMPLATE
    if _PLACEHOLDER not in template:
        remarks.append(
            f"{what} is {template!r}, without {_PLACEHOLDER}: each session replaces the file of the one before"
        )
    return template
