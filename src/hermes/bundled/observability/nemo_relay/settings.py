"""Settings of the NeMo Relay exporter: what the environment asks it to export, and where to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "HERMES_NEMO_RELAY_"

ATOF_FOLDER = ".nemo-relay/atof"
ATOF_FILENAME = "events.jsonl"
ATIF_FOLDER = ".nemo-relay/atif"
ATIF_TEMPLATE = "trajectory-{session_id}.json"
AGENT_NAME = "Hermes Agent"

_TRUTHY = frozenset({"1", "true", "yes", "on"})
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
    reader = _RelayVariables(env, cwd)
    toml = reader.text("PLUGINS_TOML")
    return RelaySettings(
        atof=reader.atof() if reader.switch("ATOF_ENABLED") else None,
        atif=reader.atif() if reader.switch("ATIF_ENABLED") else None,
        plugins_toml=absolute(toml, cwd) if toml else None,
        full_requests=reader.switch("FULL_REQUESTS"),
        remarks=tuple(reader.remarks),
    )


class _RelayVariables:
    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
        self._env = env
        self._cwd = cwd
        self.remarks: list[str] = []

    def text(self, name: str) -> str:
        return self._env.get(PREFIX + name, "").strip()

    def switch(self, name: str) -> bool:
        return self.text(name).lower() in _TRUTHY

    def atof(self) -> AtofFile:
        mode = self.text("ATOF_MODE").lower()
        if mode not in ("", "append", "overwrite"):
            self.remarks.append(f"{PREFIX}ATOF_MODE is {mode!r}; append or overwrite is expected, append is used")
        return AtofFile(
            absolute(self.text("ATOF_OUTPUT_DIRECTORY") or ATOF_FOLDER, self._cwd),
            self._filename("ATOF_FILENAME", ATOF_FILENAME),
            overwrite=mode == "overwrite",
        )

    def atif(self) -> AtifFiles:
        mode = self.text("ATIF_SUBAGENT_EXPORT_MODE").lower()
        if mode not in ("", "embedded", "all"):
            self.remarks.append(
                f"{PREFIX}ATIF_SUBAGENT_EXPORT_MODE is {mode!r}; embedded or all is expected, embedded is used"
            )
        return AtifFiles(
            absolute(self.text("ATIF_OUTPUT_DIRECTORY") or ATIF_FOLDER, self._cwd),
            checked_template(self.text("ATIF_FILENAME_TEMPLATE"), f"{PREFIX}ATIF_FILENAME_TEMPLATE", self.remarks),
            self.text("ATIF_AGENT_NAME") or AGENT_NAME,
            self.text("ATIF_AGENT_VERSION"),
            self.text("ATIF_MODEL_NAME"),
            children_too=mode == "all",
        )

    def _filename(self, name: str, default: str) -> str:
        found = self.text(name)
        if not found or is_plain_name(found):
            return found or default
        self.remarks.append(f"{PREFIX}{name} is {found!r}; a name without folders is expected, {default} is used")
        return default


def absolute(folder: str, cwd: Path) -> Path:
    """Where a path leads, without ``..`` in it: the runtime refuses those."""
    # Not ``resolve``: a folder may be a link, and one that leads in a circle is found out when it is used.
    return Path(os.path.abspath(cwd / Path(folder).expanduser()))  # noqa: PTH100


def is_plain_name(name: str) -> bool:
    """Whether a name stays in the folder it is put into."""
    return name not in (".", "..") and "/" not in name and os.sep not in name and "\0" not in name


def checked_template(template: str, what: str, remarks: list[str]) -> str:
    """The template, or the default with a remark when it would put all sessions into one file or leave the folder."""
    if not template:
        return ATIF_TEMPLATE
    rest = template.replace(_PLACEHOLDER, "", 1)
    if _PLACEHOLDER in template and "{" not in rest and "}" not in rest and is_plain_name(rest or "_"):
        return template
    remarks.append(
        f"{what} is {template!r}; a file name with {_PLACEHOLDER} in it, once, and no other braces is expected, "
        f"{ATIF_TEMPLATE} is used"
    )
    return ATIF_TEMPLATE
