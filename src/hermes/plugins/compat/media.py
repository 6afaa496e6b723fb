"""The base classes of image and video providers, and the helpers they answer with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.plugins.compat.host import Names, config_of, home_of
from hermes.plugins.compat.providers import Provider

if TYPE_CHECKING:
    from hermes.plugins.context import Parts

_IMAGE_RATIOS = ("landscape", "square", "portrait")
_VIDEO_RATIOS = ("16:9", "9:16", "1:1", "4:3", "3:4", "3:2", "2:3")
_RESOLUTIONS = ("480p", "540p", "720p", "1080p")
_MAX_BYTES = {"image": 25 * 1024 * 1024, "video": 200 * 1024 * 1024}


class ImageGenProvider(Provider):
    """Makes images."""

    def capabilities(self) -> dict[str, Any]:
        """What it accepts; text alone unless overridden."""
        return {"modalities": ["text"], "max_reference_images": 0}

    def generate(self, prompt: str, aspect_ratio: str = _IMAGE_RATIOS[0], **options: Any) -> dict[str, Any]:
        """Make one, or change one given as ``image_url``; answered with the helpers of this module."""
        raise NotImplementedError(f"{self.name} does not make images")


class VideoGenProvider(Provider):
    """Makes videos."""

    def capabilities(self) -> dict[str, Any]:
        """What it accepts; text alone unless overridden."""
        return {
            "modalities": ["text"],
            "aspect_ratios": list(_VIDEO_RATIOS),
            "resolutions": list(_RESOLUTIONS),
            "max_duration": 10,
            "min_duration": 1,
            "supports_audio": False,
            "supports_negative_prompt": False,
            "max_reference_images": 0,
        }

    def generate(self, prompt: str, **options: Any) -> dict[str, Any]:
        """Make one, from an image when ``image_url`` is given; answered with the helpers of this module."""
        raise NotImplementedError(f"{self.name} does not make videos")


def image(parts: Parts) -> Names:
    """``agent.image_gen_provider``."""
    saved = _Savings(parts, "image", "png")
    return {
        "DEFAULT_ASPECT_RATIO": _IMAGE_RATIOS[0],
        "VALID_ASPECT_RATIOS": _IMAGE_RATIOS,
        "ImageGenProvider": ImageGenProvider,
        "error_response": _failure("image", _IMAGE_RATIOS[0]),
        "normalize_reference_images": _addresses,
        "resolve_aspect_ratio": _image_ratio,
        "save_b64_image": saved.from_base64,
        "save_url_image": saved.from_address,
        "success_response": _image_made,
    }


def video(parts: Parts) -> Names:
    """``agent.video_gen_provider``."""
    saved = _Savings(parts, "video", "mp4")
    return {
        "COMMON_ASPECT_RATIOS": _VIDEO_RATIOS,
        "COMMON_RESOLUTIONS": _RESOLUTIONS,
        "DEFAULT_ASPECT_RATIO": _VIDEO_RATIOS[0],
        "DEFAULT_RESOLUTION": "720p",
        "VideoGenProvider": VideoGenProvider,
        "error_response": _failure("video", ""),
        "save_b64_video": saved.from_base64,
        "save_bytes_video": saved.from_bytes,
        "save_url_video": saved.from_address,
        "success_response": _video_made,
    }


class _Savings:
    """Keeps what a provider made in the host's cache."""

    def __init__(self, parts: Parts, what: str, extension: str) -> None:
        self._parts = parts
        self._what = what
        self._extension = extension

    def from_bytes(self, raw: bytes, *, prefix: str = "", extension: str = "") -> Path:
        """Write a file with a name of its own and return its path."""
        folder = home_of(self._parts) / "cache" / f"{self._what}s"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{prefix or self._what}_{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(4).hex()}"
        path = folder / f"{name}.{extension or self._extension}"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(raw)
        return path

    def from_base64(self, b64_data: str, *, prefix: str = "", extension: str = "") -> Path:
        """The same for what a provider sent as base64."""
        from base64 import b64decode

        return self.from_bytes(b64decode(b64_data), prefix=prefix, extension=extension)

    def from_address(self, url: str, *, prefix: str = "", timeout: float = 60.0, max_bytes: int = 0) -> Path:
        """Fetch what a provider left at an address, before the address expires. Private addresses are refused, unless
        ``security.allow_private_urls`` is set."""
        from hermes.http.fetch import fetch

        config = config_of(self._parts)
        allowed = config is not None and config.security.allow_private_urls
        limit = max_bytes or _MAX_BYTES[self._what]
        raw, kind = fetch(url, max_bytes=limit, timeout=timeout, allow_private=allowed)
        if not raw:
            raise ValueError(f"the {self._what} is empty")
        extension = kind.partition("/")[2] if kind.startswith(f"{self._what}/") else ""
        extension = {"jpeg": "jpg", "quicktime": "mov"}.get(extension, extension)
        return self.from_bytes(raw, prefix=prefix, extension=extension if extension.isalnum() else "")


def _image_made(
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


def _video_made(
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


def _failure(what: str, ratio: str) -> Callable[..., dict[str, Any]]:
    def error_response(
        *,
        error: str,
        error_type: str = "provider_error",
        provider: str = "",
        model: str = "",
        prompt: str = "",
        aspect_ratio: str = ratio,
    ) -> dict[str, Any]:
        told = {"error": error, "error_type": error_type, "model": model, "prompt": prompt}
        return {"success": False, what: None, **told, "aspect_ratio": aspect_ratio, "provider": provider}

    return error_response


def _image_ratio(value: object) -> str:
    wanted = value.strip().lower() if isinstance(value, str) else ""
    return wanted if wanted in _IMAGE_RATIOS else _IMAGE_RATIOS[0]


def _addresses(value: Any) -> list[str] | None:
    given: list[Any] = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else []  # pyright: ignore[reportUnknownArgumentType]
    return [item.strip() for item in given if isinstance(item, str) and item.strip()] or None
