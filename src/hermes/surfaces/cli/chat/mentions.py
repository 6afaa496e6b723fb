"""File mentions: ``@path`` in a message adds the text of that file, or the names in that folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hermes.base.errors import HermesError

#: The text of all files that one message may bring; more is better read in parts, by the model itself.
MAX_MENTIONED_BYTES = 256 * 1024
#: The names of a folder that are listed.
MAX_NAMES = 200

#: ``@path`` or ``@"path with blanks"`` at the beginning of a word; ``\@`` is an ordinary character.
_MENTION = re.compile(r"""(?<![\w@\\.~/])@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"'@]+))""")
_IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")


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
