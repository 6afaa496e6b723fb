"""One request to ``/images/generations``, and the errors of its answers."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from hermes import HermesError
from hermes.base.sanitize import Redactor

#: An answer holds one image, in base64 at worst.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_MESSAGE_CHARS = 500

_ADVICE = {
    401: "the key is not accepted; set OPENAI_API_KEY, or api_key among the plugin's settings",
    403: "the key may not make images with this model",
    404: "there is no /images/generations at this address, or no such model; check base_url and model",
    429: "too many requests or no credit left; try again later",
}


class ImagesError(Exception):
    """There is no image. ``kind`` is the class of failure."""

    def __init__(self, message: str, kind: str = "provider_error") -> None:
        super().__init__(message)
        self.kind = kind


class GeneratedImage(msgspec.Struct):
    """An image as the endpoint sent it: its data in base64, or the URL to fetch it from."""

    b64_json: str | None = None
    url: str | None = None
    revised_prompt: str | None = None


class _ImageAnswer(msgspec.Struct):
    data: list[GeneratedImage]


class _ErrorText(msgspec.Struct):
    message: str = ""


class _ErrorAnswer(msgspec.Struct):
    error: _ErrorText | str = ""


def generate(http: Any, *, base_url: str, key: str, body: dict[str, Any], timeout: float) -> GeneratedImage:
    """Ask for one image over ``ctx.http``. Raises ``ImagesError``, whose text never holds the key.

    Redirects are not followed, since the key is for the configured address alone, which may be a private one.
    """
    redactor = Redactor((key,))
    url = _address(base_url)
    headers = {"accept": "application/json"}
    if key:
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ImagesError("the key has characters that cannot be sent; copy it again", "config")
        headers["authorization"] = f"Bearer {key}"
    try:
        answer = http.request(
            "POST", url, headers=headers, json=body, timeout=timeout, max_bytes=MAX_ANSWER_BYTES, allow_private=True
        )
    except HermesError as error:
        host = urlsplit(base_url).hostname or base_url
        raise ImagesError(redactor.redact(f"{host} cannot be reached: {error}"), "connection") from None
    if not answer.is_success:
        raise ImagesError(redactor.redact(_refusal(answer.status, answer.body)), "http_error")
    return _image(answer.body)


def _address(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ImagesError(
            f"base_url is {base_url!r}; an address such as https://api.openai.com/v1 is expected", "config"
        )
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/images/generations"))


def _refusal(status: int, body: bytes) -> str:
    """The server's error and advice."""
    if 300 <= status < 400:
        return f"the server redirects elsewhere (status {status}); set base_url to the final address"
    try:
        error = msgspec.json.decode(body, type=_ErrorAnswer).error
        text = error if isinstance(error, str) else error.message
    except ValueError:
        text = ""
    advice = _ADVICE.get(status, "")
    parts = (f"status {status}", " ".join(text.split())[:_MAX_MESSAGE_CHARS], advice)
    return ": ".join(part for part in parts if part)


def _image(answer: bytes) -> GeneratedImage:
    try:
        image = msgspec.json.decode(answer, type=_ImageAnswer).data[0]
    except (ValueError, IndexError):
        raise ImagesError("the answer is not what /images/generations promises: no data[0]", "malformed") from None
    if not (image.b64_json or image.url):
        raise ImagesError("the answer holds neither b64_json nor url", "malformed")
    return image
