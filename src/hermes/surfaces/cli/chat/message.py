"""Messages: words of the command line, piped input and images; and ``@path`` in a message, which adds that file."""

from __future__ import annotations

import argparse
import os
import re
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
#: The text of all files that one message may bring; more is better read in parts, by the model itself.
MAX_MENTIONED_BYTES = 256 * 1024
#: The names of a folder that are listed.
MAX_NAMES = 200

#: ``@path`` or ``@"path with blanks"`` at the beginning of a word; ``\@`` is an ordinary character.
_MENTION = re.compile(r"""(?<![\w@\\.~/])@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"'@]+))""")
_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def read_message(args: argparse.Namespace) -> str | list[dict[str, Any]] | None:
    """The user message: text, or text and images. None when none is given."""
    text = _given_text(args)
    if text is not None and not text.strip():
        raise HermesError("the message is empty")
    if text is not None and not text.startswith("/"):
        text, _ = expand_mentions(text, Path.cwd())
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


# -- mentions ----------------------------------------------------------------------------------------------------------


def expand_mentions(text: str, cwd: Path) -> tuple[str, list[str]]:
    """The message followed by what it mentions, and the names of what was added.

    A word that names nothing here stays a word when it does not look like a path (``@property``); otherwise, and for a
    file that is too large, not text or not readable, ``HermesError`` says what to do.
    """
    if "@" not in text:
        return text, []
    blocks: dict[str, str] = {}
    room = MAX_MENTIONED_BYTES
    for found in _MENTION.finditer(text):
        name, path = _mentioned(found, cwd)
        if path is None or name in blocks or (path.is_file() and name.lower().endswith(_IMAGE_ENDINGS)):
            continue
        blocks[name] = _folder_block(name, path) if path.is_dir() else _file_block(name, path, room)
        room -= len(blocks[name])
    message = text.replace("\\@", "@")
    return "\n\n".join([message, *blocks.values()]), list(blocks)


def _mentioned(found: re.Match[str], cwd: Path) -> tuple[str, Path | None]:
    """The name and the path of a mention; no path for a word that is no mention."""
    quoted: str | None = found["quoted"]
    readings = [quoted] if quoted is not None else [found["bare"], found["bare"].rstrip(".,;:!?)]}>")]
    for name in readings:
        path = _existing(name, cwd)
        if path is not None:
            return name, path
    name = readings[-1]
    if quoted is None and not _looks_like_a_path(name):
        return name, None
    raise HermesError(f"@{name}: no such file or folder in {cwd}; write \\@{name} when no file is meant")


def _existing(name: str, cwd: Path) -> Path | None:
    try:
        path = Path(os.path.normpath(cwd / Path(name).expanduser()))
        return path if name and path.exists() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _looks_like_a_path(name: str) -> bool:
    return "/" in name or re.search(r"\w\.\w+$", name) is not None


def _file_block(name: str, path: Path, room: int) -> str:
    try:
        if not path.is_file():
            raise HermesError(f"@{name}: not a file or folder")
        size = path.stat().st_size
        if size > room:
            raise HermesError(
                f"@{name}: {size:,} bytes; the files of one message may have {MAX_MENTIONED_BYTES:,} in total. "
                "Name the file without @, so that the model reads what it needs"
            )
        data = path.read_bytes()
    except OSError as error:
        raise HermesError(f"@{name}: {error.strerror}") from error
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError:
        content = "\0"
    if "\0" in content:
        raise HermesError(f"@{name}: not a text file; name it without @ to speak of it")
    return f'<file path="{name}">\n{content.rstrip()}\n</file>'


def _folder_block(name: str, path: Path) -> str:
    try:
        names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in path.iterdir())
    except OSError as error:
        raise HermesError(f"@{name}: {error.strerror}") from error
    shown = names[:MAX_NAMES]
    if len(shown) < len(names):
        shown.append(f"... and {len(names) - len(shown)} more")
    return f'<folder path="{name}">\n' + "\n".join(shown or ["(empty)"]) + "\n</folder>"
