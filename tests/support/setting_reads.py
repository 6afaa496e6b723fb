"""A recording of the settings that the runtime reads, as a plugin of pytest: ``-p support.setting_reads``.

Each field of a configuration struct becomes a property that writes ``Struct.field`` to a file, once per process, when
code of the runtime reads it. Reads of the configuration's own modules (checks, listings) and of ``hermes doctor`` only
report it and do not count; the methods of a struct answer for their callers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from hermes.base.config.schema import gateway as gateway_sections
from hermes.base.config.schema import mcp as mcp_sections
from hermes.base.config.schema import sections

#: The variable that names the file.
FILE = "RECORD_SETTING_READS"

_MODULES = (sections, mcp_sections, gateway_sections)
_PACKAGE = Path(sections.__file__).parents[3]
_RUNTIME = f"{_PACKAGE}{os.sep}"
_REPORTING = tuple(
    f"{folder}{os.sep}" for folder in (_PACKAGE / "base" / "config", _PACKAGE / "surfaces" / "cli" / "doctor")
)
_STRUCTS = tuple(str(module.__file__) for module in _MODULES)


def record(file: Path) -> None:
    """Write every setting that is read from now on to the file, in this process and those forked from it."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    for module in _MODULES:
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__:
                for field in kind.__struct_fields__:
                    setattr(kind, field, _recording(kind, field, descriptor))


def _recording(kind: type[msgspec.Struct], field: str, descriptor: int) -> property:
    slot = getattr(kind, field)
    line = f"{kind.__name__}.{field}\n".encode()
    seen = False

    def read(settings: msgspec.Struct) -> Any:
        nonlocal seen
        if not seen and _is_of_the_runtime(sys._getframe(1)):  # pyright: ignore[reportPrivateUsage]
            seen = True
            os.write(descriptor, line)
        return slot.__get__(settings, kind)

    write: Callable[[Any, Any], None] = slot.__set__
    return property(read, write)


def _is_of_the_runtime(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename in _STRUCTS:
        frame = frame.f_back
    reader = frame.f_code.co_filename if frame is not None else ""
    return reader.startswith(_RUNTIME) and not reader.startswith(_REPORTING)


if FILE in os.environ:
    record(Path(os.environ[FILE]))
