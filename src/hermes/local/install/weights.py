"""Which model file is run, and what it is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hermes.config.sections import LocalConfig
from hermes.errors import ConfigError
from hermes.local.endpoint import EMBEDDED
from hermes.local.install.parts import find_runtime, find_weights

#: The variable that names a model file for one run.
MODEL_VARIABLE = "HERMES_LOCAL_MODEL"

#: Twice what a prompt of the embedded model may take, for a long answer and a wrong estimate.
_EMBEDDED_CONTEXT = 2_048
#: What a user's model gets unless more is asked for: models claim contexts that fill any memory.
_USUAL_CONTEXT = 8_192


class NotInstalled(ConfigError):
    """What ``hermes local install`` gets is not here."""

    def __init__(self, message: str = "the embedded model is not installed; run: hermes local install") -> None:
        super().__init__(message)


class Weights(NamedTuple):
    """A model file to run."""

    path: Path
    #: What hooks, records and answers call the model.
    name: str
    context_length: int

    @property
    def is_embedded(self) -> bool:
        """Whether it is the small model, which has to be asked in its own way."""
        return self.name == EMBEDDED


def chosen_file(settings: LocalConfig, env: Mapping[str, str]) -> Path | None:
    """The user's own model file, if one is named; a variable wins over the configuration."""
    named = env.get(MODEL_VARIABLE, "").strip() or settings.model_path.strip()
    return Path(named).expanduser().absolute() if named else None


def find_model(settings: LocalConfig, env: Mapping[str, str], home: Path) -> Weights:
    """The model that would run. Raises ``ConfigError`` when there is none, or no runtime for it."""
    file = chosen_file(settings, env)
    if find_runtime(home) is None:
        raise NotInstalled if file is None else NotInstalled(f"{file} needs a runtime; run: hermes local install")
    if file is None:
        file = find_weights(home)
        if file is None:
            raise NotInstalled
        return Weights(file, EMBEDDED, _EMBEDDED_CONTEXT)
    from hermes.local.install.gguf import read_gguf

    trained_for = read_gguf(file).context_length or _USUAL_CONTEXT
    return Weights(file, file.name, settings.context_length or min(trained_for, _USUAL_CONTEXT))
