"""``agent.image_gen_provider`` and ``agent.video_gen_provider``: helpers that save files and build answers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes.plugins.compat.bases import IMAGE_RATIOS, VIDEO_RATIOS, VIDEO_RESOLUTIONS
from hermes.plugins.compat.names import Names, config_of, home_of
from hermes.plugins.services import PluginHost

_MAX_BYTES = {"image": 25 * 1024 * 1024, "video": 200 * 1024 * 1024}


def image(host: PluginHost) -> Names:
    """``agent.image_gen_provider``."""
    files = _MediaFiles(host, "image", "png")
    return {
        "DEFAULT_ASPECT_RATIO": IMAGE_RATIOS[0],
        "VALID_ASPECT_RATIOS": IMAGE_RATIOS,
        "error_response": _error_response("image", IMAGE_RATIOS[0]),
        "normalize_reference_images": _urls,
        "resolve_aspect_ratio": _image_ratio,
        "save_b64_image": files.from_base64,
        "save_url_image": files.from_address,
        "success_response": _image_response,
    }


def video(host: PluginHost) -> Names:
    """``agent.video_gen_provider``."""
    files = _MediaFiles(host, "video", "mp4")
    return {
        "COMMON_ASPECT_RATIOS": VIDEO_RATIOS,
        "COMMON_RESOLUTIONS": VIDEO_RESOLUTIONS,
        "DEFAULT_ASPECT_RATIO": VIDEO_RATIOS[0],
        "DEFAULT_RESOLUTION": "720p",
        "error_response": _error_response("video", ""),
        "save_b64_video": files.from_base64,
        "save_bytes_video": files.from_bytes,
        "save_url_video": files.from_address,
        "success_response": _video_response,
    }


@dataclass
class _MediaFiles:
    """Saves what a provider made in the host's cache."""

    host: PluginHost
    what: str
    extension: str

    def from_bytes(self, raw: bytes, *, prefix: str = "", extension: str = "") -> Path:
        """Write a file with a name of its own and return its path."""
        folder = home_of(self.host) / "cache" / f"{self.what}s"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{prefix or self.what}_{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(4).hex()}"
        path = folder / f"{name}.{extension or self.extension}"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(raw)
        return path

    def from_base64(self, b64_data: str, *, prefix: str = "", extension: str = "") -> Path:
        """Save what a provider sent as base64."""
        from base64 import b64decode

        return self.from_bytes(b64decode(b64_data), prefix=prefix, extension=extension)

    def from_address(self, url: str, *, prefix: str = "", timeout: float = 60.0, max_bytes: int = 0) -> Path:
        """Download from a URL, before it expires. Private addresses are refused (SSRF guard), unless
        ``security.allow_private_urls`` is set.
        """
        from hermes.base.http.fetch import fetch

        config = config_of(self.host)
        allowed = config is not None and config.security.allow_private_urls
        limit = max_bytes or _MAX_BYTES[self.what]
        raw, kind = fetch(url, max_bytes=limit, timeout=timeout, allow_private=allowed)
        if not raw:
            raise ValueError(f"the {self.what} is empty")
        extension = kind.partition("/")[2] if kind.startswith(f"{self.what}/") else ""
        extension = {"jpeg": "jpg", "quicktime": "mov"}.get(extension, extension)
        return self.from_bytes(raw, prefix=prefix, extension=extension if extension.isalnum() else "")


def _image_response(
    *,
    image: str,
    model: str,
    prompt: str,
    aspect_ratio: str,
    provider: str,
    modality: str = "text",
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    made = {"success": True, "image": image, "model": model, "prompt": prompt, "aspect_ratio": aspect_ratio}
    return {**(extra or {}), **made, "modality": modality, "provider": provider}


def _video_response(
    *,
    video: str,
    model: str,
    prompt: str,
    provider: str,
    modality: str = "text",
    aspect_ratio: str = "",
    duration: int = 0,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    made = {"success": True, "video": video, "model": model, "prompt": prompt, "aspect_ratio": aspect_ratio}
    return {**(extra or {}), **made, "modality": modality, "duration": int(duration or 0), "provider": provider}


def _error_response(what: str, ratio: str) -> Callable[..., dict[str, Any]]:
    def error_response(
        *,
        error: str,
        error_type: str = "provider_error",
        provider: str = "",
        model: str = "",
        prompt: str = "",
        aspect_ratio: str = ratio,
    ) -> dict[str, Any]:
        fields = {"error": error, "error_type": error_type, "model": model, "prompt": prompt}
        return {"success": False, what: None, **fields, "aspect_ratio": aspect_ratio, "provider": provider}

    return error_response


def _image_ratio(value: object) -> str:
    wanted = value.strip().lower() if isinstance(value, str) else ""
    return wanted if wanted in IMAGE_RATIOS else IMAGE_RATIOS[0]


def _urls(value: Any) -> list[str] | None:
    given: list[Any] = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []  # pyright: ignore[reportUnknownArgumentType]
    return [item.strip() for item in given if isinstance(item, str) and item.strip()] or None
