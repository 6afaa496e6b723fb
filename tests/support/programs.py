"""Small programs that stand in for those of a desktop."""

from __future__ import annotations

from pathlib import Path


def write_program(folder: Path, name: str, script: str) -> None:
    """Put a shell script into a folder of the PATH."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
