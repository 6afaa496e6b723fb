"""What ``hermes help COMMAND`` prints, compared without what differs between versions of Python."""

from __future__ import annotations

import contextlib
import io
import os
import re

from hermes.surfaces.cli.main import main

_WIDTH = "100"


def help_text(*command: str) -> str:
    """The help of a command in a fenced block."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDTH
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            main(["help", *command])
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before
    return f"```text\n{output.getvalue().strip()}\n```\n"


def usage_lines(*commands: str) -> str:
    """The usage of several commands in a fenced block, one after another."""
    paragraphs = [help_text(*command.split()).split("\n\n")[0] for command in commands]
    lines = [" ".join(paragraph.replace("```text\nusage: ", "").split()) for paragraph in paragraphs]
    return "```text\n" + "".join(f"{line.replace(' [-h]', '')}\n" for line in lines) + "```\n"


def words_of(text: str) -> list[str]:
    """The text without its line breaks. ``-q TEXT, --query TEXT`` is ``-q, --query TEXT`` from Python 3.13 on."""
    return re.sub(r"(-\w) (\S+), (--[\w-]+ \2)", r"\1, \3", " ".join(text.split())).split()
