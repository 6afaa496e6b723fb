"""Files a user sends along with a message."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from hermes.errors import HermesError

MAX_IMAGE_BYTES = 20 * 1024 * 1024

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def image_part(path: Path) -> dict[str, Any]:
    """An image file as a part of a user message."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise HermesError(f"--image {path}: not a file")
        if size > MAX_IMAGE_BYTES:
            raise HermesError(f"--image {path}: {size:,} bytes; at most {MAX_IMAGE_BYTES:,} are sent. Make it smaller")
        data = path.read_bytes()
    except OSError as error:
        raise HermesError(f"--image {path}: {error.strerror}") from error
    mime_type = _mime_type(data)
    if mime_type is None:
        raise HermesError(f"--image {path}: not a PNG, JPEG, GIF or WebP image")
    url = f"data:{mime_type};base64,{base64.b64encode(data).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def _mime_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for signature, mime in _SIGNATURES if data.startswith(signature)), None)
