"""The model file to run: the embedded weights or a GGUF file, with the facts in its header."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

from hermes.base.config.schema.sections import LocalConfig
from hermes.base.errors import ConfigError
from hermes.models.local.endpoint import EMBEDDED
from hermes.models.local.install.parts import find_runtime, find_weights

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
#: Bytes of a value by its type.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_INTEGERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
#: No sane file has longer names or lists before the tokenizer's; what claims to is not read on.
_LONGEST = 1 << 20


class GgufFacts(NamedTuple):
    """What a model file says of itself."""

    architecture: str
    #: The longest context the model was trained for.
    context_length: int | None


class _Unreadable(Exception):
    """What is there is not what a GGUF file has there."""


def read_gguf(path: Path) -> GgufFacts:
    """The facts at the beginning of a file. Raises ``ConfigError`` when it is no model file."""
    try:
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:
                raise ConfigError(
                    f"{path} is not a GGUF file (it does not begin with GGUF); give a model in that format"
                )
            return _facts(file)
    except OSError as error:
        raise ConfigError(f"the model file {path} cannot be read: {error.strerror}") from None
    except (_Unreadable, struct.error, UnicodeDecodeError, RecursionError):
        raise ConfigError(f"{path} is damaged: its beginning is not that of a GGUF file; fetch it again") from None


def _facts(file: IO[bytes]) -> GgufFacts:
    version, _tensors, entries = struct.unpack("<IQQ", file.read(20))
    if not 2 <= version <= 3:
        raise _Unreadable
    architecture, context_length = "", None
    for _ in range(entries):
        key = _string(file)
        if key.startswith("tokenizer."):
            break  # the long lists of the tokenizer come last
        value = _value(file, _number(file, "<I"))
        if key == "general.architecture" and isinstance(value, str):
            architecture = value
        elif key == f"{architecture}.context_length" and isinstance(value, int) and value > 0:
            context_length = value
            break
    return GgufFacts(architecture, context_length)


def _value(file: IO[bytes], kind: int) -> str | int | None:
    """The next value; ``None`` for kinds that are not used."""
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = _number(file, "<I"), _number(file, "<Q")
        if count > _LONGEST:
            raise _Unreadable
        if inner in _SIZES:
            file.seek(_SIZES[inner] * count, 1)
            return None
        for _ in range(count):
            _value(file, inner)
        return None
    if kind not in _SIZES:
        raise _Unreadable
    if kind in _INTEGERS:
        return _number(file, _INTEGERS[kind])
    file.seek(_SIZES[kind], 1)
    return None


def _number(file: IO[bytes], form: str) -> int:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _string(file: IO[bytes]) -> str:
    length = _number(file, "<Q")
    if length > _LONGEST:
        raise _Unreadable
    data = file.read(length)
    if len(data) < length:
        raise _Unreadable
    return data.decode()


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
    trained_for = read_gguf(file).context_length or _USUAL_CONTEXT
    return Weights(file, file.name, settings.context_length or min(trained_for, _USUAL_CONTEXT))
