"""Files that a chat platform delivered: ``cache_image_from_bytes`` and its kin of ``gateway.platforms.base``."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from hermes.plugins.compat.names import Names, config_of, home_of
from hermes.plugins.services import PluginHost

#: Folder and usual ending of each kind of file.
_KINDS = {
    "image": ("cache/images", "image_cache", ".jpg"),
    "audio": ("cache/audio", "audio_cache", ".ogg"),
    "video": ("cache/videos", "video_cache", ".mp4"),
    "document": ("cache/documents", "document_cache", ""),
}
#: How the files of the usual image formats begin.
_IMAGES = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|BM|RIFF....WEBP", re.DOTALL)
_MOST_BYTES = 100 * 1024 * 1024


@dataclass(frozen=True)
class CachedMedia:
    """A file that was stored, and what it is."""

    path: str
    #: ``image``, ``audio``, ``video`` or ``document``.
    kind: str
    media_type: str
    display_name: str


def received_files(host: PluginHost) -> Names:
    """Functions that store what arrived in the home's cache and return the path, as text."""
    names: Names = {"CachedMedia": CachedMedia, "validate_inbound_media_size": validate_size}
    for kind in ("image", "audio", "video"):
        ending = _KINDS[kind][2]
        names[f"cache_{kind}_from_bytes"] = _from_bytes(host, kind, ending)
    for kind in ("image", "audio"):
        names[f"cache_{kind}_from_url"] = _from_url(host, kind, _KINDS[kind][2])
    for kind in _KINDS:
        names[f"get_{kind}_cache_dir"] = partial(_folder, host, kind)
    return {
        **names,
        "cache_document_from_bytes": partial(_save_document, host),
        "cache_media_bytes": partial(_cache_media, host),
    }


def validate_size(size: int, *, media_type: str = "media", max_bytes: int | None = None) -> None:
    """Refuse what is too large to store; 0 is no limit."""
    limit = _MOST_BYTES if max_bytes is None else max_bytes
    if limit and size > limit:
        raise ValueError(f"the {media_type} has {size:,} bytes; at most {limit:,} are stored")


def _folder(host: PluginHost, kind: str) -> Path:
    """The folder of such files, which is made when it is not there."""
    place, former, _ = _KINDS[kind]
    home = home_of(host)
    old = home / former
    folder = old if old.is_dir() and any(old.iterdir()) else home / place
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _from_bytes(host: PluginHost, kind: str, usual: str) -> Callable[..., str]:
    def cache_from_bytes(data: bytes, ext: str = usual) -> str:
        """Store the bytes under a name of their own."""
        return _save(host, kind, data, ext)

    return cache_from_bytes


def _from_url(host: PluginHost, kind: str, usual: str) -> Callable[..., Awaitable[str]]:
    async def cache_from_url(url: str, ext: str = usual, retries: int = 2) -> str:
        """Download and store. The SSRF guard refuses private addresses, as for every URL that others choose."""
        import asyncio

        from hermes.base.http.fetch import fetch

        config = config_of(host)
        allowed = config is not None and config.security.allow_private_urls
        work = partial(fetch, url, max_bytes=_MOST_BYTES, timeout=60.0, allow_private=allowed)
        for left in range(retries, -1, -1):
            try:
                data, _ = await asyncio.to_thread(work)
                return _save(host, kind, data, ext)
            except OSError:
                if not left:
                    raise
        raise AssertionError("the last attempt returned or raised")

    return cache_from_url


def _save(host: PluginHost, kind: str, data: bytes, ext: str) -> str:
    validate_size(len(data), media_type=kind)
    if kind == "image" and not _IMAGES.match(data):
        raise ValueError(f"this is not an image: it begins with {data[:40]!r}")
    ending = ext if re.fullmatch(r"\.\w+", ext) else ""
    return _write(_folder(host, kind) / f"{'img' if kind == 'image' else kind}_{os.urandom(6).hex()}{ending}", data)


def _save_document(host: PluginHost, data: bytes, filename: str) -> str:
    """Store under a name of its own that ends with the one given, without its folders."""
    validate_size(len(data), media_type="document")
    name = "".join(one for one in Path(filename or "").name if one.isprintable()).strip()
    return _write(_folder(host, "document") / f"doc_{os.urandom(6).hex()}_{name[-120:] or 'document'}", data)


def _write(path: Path, data: bytes) -> str:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    return str(path)


def _cache_media(
    host: PluginHost, data: bytes, *, filename: str = "", mime_type: str = "", default_kind: str | None = None
) -> CachedMedia | None:
    """Store a file by what it is; None for an image that is none."""
    import mimetypes

    media_type = mime_type.lower() or mimetypes.guess_type(filename)[0] or ""
    named = media_type.partition("/")[0]
    kind = named if named in ("image", "audio", "video") else default_kind or "document"
    ending = Path(filename).suffix or mimetypes.guess_extension(media_type) or _KINDS[kind][2]
    shown: str = re.sub(r"[^\w.\- ]", "_", filename) or ending.lstrip(".") or "file"
    try:
        path = _save_document(host, data, filename) if kind == "document" else _save(host, kind, data, ending)
    except ValueError:
        if kind == "image":
            return None
        raise
    return CachedMedia(path, kind, media_type or "application/octet-stream", shown)


def adapter_helpers(_host: PluginHost) -> Names:
    """Small functions of ``gateway.platforms.base``."""
    return {
        "classify_send_error": classify_send_error,
        "resolve_channel_prompt": resolve_channel_prompt,
        "safe_url_for_log": safe_url_for_log,
    }


#: What the texts of errors say, by the kind of the error; the first that fits counts.
_ERROR_KINDS = {
    "too_long": ("too long", "message_too_long"),
    "bad_format": ("can't parse", "cant parse", "can't find end", "unsupported start tag"),
    "forbidden": ("forbidden", "blocked by the user", "not enough rights", "kicked", "missing permissions"),
    "not_found": ("not found", "unknown channel", "unknown message", "channel_not_found"),
    "rate_limited": ("rate limit", "too many requests", "flood", "ratelimited", "429"),
    "transient": ("timed out", "timeout", "connection", "temporarily", "502", "503", "504"),
}


def classify_send_error(exc: BaseException | None, error_text: str = "") -> str:
    """Why a message was not sent, in one of the words of ``SendResult.error_kind``."""
    text = f"{exc or ''} {error_text}".lower()
    for kind, phrases in _ERROR_KINDS.items():
        if any(phrase in text for phrase in phrases):
            return kind
    return "transient" if isinstance(exc, OSError) else "unknown"


def resolve_channel_prompt(config_extra: dict[str, Any], channel_id: str, parent_id: str | None = None) -> str | None:
    """The instructions for a chat, or else for the one that it is part of, from ``channel_prompts``."""
    written: object = config_extra.get("channel_prompts")
    prompts = cast("dict[str, object]", written) if isinstance(written, dict) else {}
    for key in (channel_id, parent_id):
        found = prompts.get(key or "")
        if found is not None and str(found).strip():
            return str(found).strip()
    return None


def safe_url_for_log(url: str, max_len: int = 80) -> str:
    """A URL without what may be secret in it: no password, no query, no fragment."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(str(url))
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    text = f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"
    return text if len(text) <= max_len else f"{text[: max_len - 3]}..."
