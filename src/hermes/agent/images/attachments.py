"""Image attachments of user messages: files given as options, or named by path in the text."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from hermes.base.errors import HermesError

MAX_IMAGE_BYTES = 20 * 1024 * 1024
#: Images found in the text of one message; further ones stay words.
MAX_IMAGES = 10

#: The kinds that models take, each with the usual ending of a file's name.
EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)

Part = dict[str, Any]

#: A path as people type or paste it: quoted, or bare with escaped blanks; ``@`` in front says that it is meant so.
_PATH = r"""(?x) (?<![\w@.~/\\]) (?P<at>@?)
    (?: "(?P<double>[^"\n]+)" | '(?P<single>[^'\n]+)' | (?P<bare>(?:\\.|[^\s"'\\(\[{<]) (?:\\.|[^\s"'\\])*) )
"""


def image_part(path: Path, *, label: str = "--image") -> Part:
    """An image file as a part of a user message; ``label`` says in errors where the file was named."""
    where = f"{label} {path}".strip()
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise HermesError(f"{where}: not a file")
        if size > MAX_IMAGE_BYTES:
            raise HermesError(f"{where}: {size:,} bytes; at most {MAX_IMAGE_BYTES:,} are sent. Make it smaller")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise HermesError(f"{where}: {getattr(error, 'strerror', None) or error}") from error
    mime_type = image_type(data)
    if mime_type is None:
        raise HermesError(f"{where}: not a PNG, JPEG, GIF or WebP image")
    url = f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def split_images(text: str, cwd: Path) -> tuple[str, list[Part]]:
    """A message as typed or pasted, and the images whose paths it names.

    The paths stay in the text, without the ``@`` that may mark them, so that the model can speak of the files. A path
    counts when it has the name and the content of an image; one marked with ``@`` that cannot be sent is an error.
    """
    if not any(ending in text.lower() for ending in _ENDINGS):
        return text, []
    import re

    parts: list[Part] = []
    pieces: list[str] = []
    end = 0
    seen: set[str] = set()
    for found in re.finditer(_PATH, text):
        path, length = _image_path(found, cwd)
        if path is None or len(seen) >= MAX_IMAGES:
            continue
        part = _part(path, is_marked=bool(found["at"]))
        if part is None:
            continue
        if str(path) not in seen:
            seen.add(str(path))
            parts.append(part)
        start = found.start() + len(found["at"])
        pieces += text[end : found.start()], text[start : found.start() + length]
        end = found.start() + length
    return "".join(pieces) + text[end:], parts


def with_images(text: str, parts: list[Part]) -> str | list[Part]:
    """The content of a user message: the text alone, or the text and its images."""
    return [{"type": "text", "text": text}, *parts] if parts else text


def image_type(data: bytes) -> str | None:
    """What kind of image this is, by its first bytes; None when it is none that models take."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for signature, mime in _SIGNATURES if data.startswith(signature)), None)


def _image_path(found: Any, cwd: Path) -> tuple[Path | None, int]:
    """The file a piece of text names, when it looks like an image's, and how much of the text is its name."""
    quoted: str | None = found["double"] or found["single"]
    readings = [quoted] if quoted is not None else _readings(found["bare"])
    length = len(found[0])
    for name in readings:
        path = _resolved(name, cwd) if name.lower().endswith(_ENDINGS) else None
        if path is not None:
            return path, length - (len(readings[0]) - len(name))
    return None, length


def _readings(bare: str) -> list[str]:
    """The word itself, and without the punctuation that a sentence puts behind it."""
    import re

    plain = re.sub(r"\\(.)", r"\1", bare)
    return [plain, plain.rstrip(".,;:!?)]}>")]


def _resolved(name: str, cwd: Path) -> Path | None:
    from urllib.parse import unquote

    if name.startswith("file://"):
        name = unquote(name[len("file://") :])
    try:
        path = Path(os.path.normpath(cwd / Path(name).expanduser()))
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _part(path: Path, *, is_marked: bool) -> Part | None:
    try:
        return image_part(path, label="@" if is_marked else "")
    except HermesError:
        if is_marked:
            raise
        return None  # words about a file that is no image, or too large for one
