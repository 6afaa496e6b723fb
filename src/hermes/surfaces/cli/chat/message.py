"""The message of a one-shot run: words of the command line, piped input, mentioned files and images."""

from __future__ import annotations

import argparse
import os
import select
import stat
import sys
from pathlib import Path
from typing import Any

from hermes.base.errors import HermesError

#: Piped text beyond this is an error: it would fill any model's context.
MAX_PIPED_BYTES = 1024 * 1024
#: How long a run that has its message already waits for the first byte of a pipe.
_PIPE_SECONDS = 1.0


def read_message(args: argparse.Namespace) -> str | list[dict[str, Any]] | None:
    """The user message: text, or text and images. None when none is given."""
    text = _given_text(args)
    if text is not None and not text.strip():
        raise HermesError("the message is empty")
    if text is not None and not text.startswith("/"):
        text = _with_mentions(text)
    if not args.image:
        return text
    from hermes.agent.images.attachments import image_part

    parts = [image_part(Path(path)) for path in args.image]
    return [{"type": "text", "text": text or "Describe this image."}, *parts]


def _given_text(args: argparse.Namespace) -> str | None:
    words: list[str] = args.message
    if words and args.query is not None:
        raise HermesError("two messages: one as words, one with --query; give one of them")
    text = " ".join(words) if words else args.query
    if text == "-":
        if not sys.stdin:
            raise HermesError("the message '-' is read from stdin, which is closed")
        return _piped()
    if text is None or not _has_input():
        return text
    if not _first_byte_comes():
        print("Note: stdin is a pipe without data; continuing without it.", file=sys.stderr, flush=True)
        return text
    piped = _piped().strip("\n")
    return f"{text}\n\n{piped}" if piped.strip() else text


def _with_mentions(text: str) -> str:
    if "@" not in text:
        return text
    from hermes.surfaces.cli.chat.mentions import expand_mentions

    return expand_mentions(text, Path.cwd())[0]


def _has_input() -> bool:
    """Whether stdin is a file or a pipe; a terminal, a device such as /dev/null or a socket is left alone."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or replaced by an object without a descriptor
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode)


def _first_byte_comes() -> bool:
    """Whether the input has data, or ends, in time: a pipe may be left open by a program that never writes."""
    return bool(select.select([sys.stdin.fileno()], [], [], _PIPE_SECONDS)[0])


def _piped() -> str:
    data = sys.stdin.buffer.read(MAX_PIPED_BYTES + 1)
    if len(data) > MAX_PIPED_BYTES:
        raise HermesError(
            f"stdin has more than {MAX_PIPED_BYTES:,} bytes; put the text into a file and name the file in the "
            "message, so that the model reads what it needs (@file adds a file of up to 256 kB)"
        )
    return data.decode("utf-8", "replace")
