"""One request to ``/images/generations``, and what its answers mean."""

from __future__ import annotations

import http.client
import ipaddress
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from hermes.sanitize import Redactor

#: An answer carries one image, in base64 at worst.
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


class Image(msgspec.Struct):
    """An image as the endpoint sent it: its data in base64, or where it is to be fetched."""

    b64_json: str | None = None
    url: str | None = None
    revised_prompt: str | None = None


class _Answer(msgspec.Struct):
    data: list[Image]


class _Words(msgspec.Struct):
    message: str = ""


class _Refusal(msgspec.Struct):
    error: _Words | str = ""


class _NoRedirections(urllib.request.HTTPRedirectHandler):
    """The key is for the configured address alone."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def generate(*, base_url: str, key: str, body: dict[str, Any], timeout: float) -> Image:
    """Ask for one image. Raises ``ImagesError``, whose words never hold the key."""
    redactor = Redactor((key,))
    request = urllib.request.Request(_address(base_url), data=msgspec.json.encode(body), method="POST")
    request.add_header("Content-Type", "application/json")
    request.add_header("Accept", "application/json")
    if key:
        _check_key(key)
        request.add_unredirected_header("Authorization", f"Bearer {key}")
    try:
        with _opener(base_url).open(request, timeout=timeout) as response:
            answer = response.read(MAX_ANSWER_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise ImagesError(redactor.redact(_refusal(error)), "http_error") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise ImagesError(redactor.redact(f"{_host(base_url)} cannot be reached: {reason}"), "connection") from None
    if len(answer) > MAX_ANSWER_BYTES:
        raise ImagesError(f"the answer is larger than {MAX_ANSWER_BYTES:,} bytes", "malformed")
    return _image(answer)


def _opener(base_url: str) -> urllib.request.OpenerDirector:
    # A proxy elsewhere would reach its own machine instead of a server on this one.
    proxies = [urllib.request.ProxyHandler({})] if _is_loopback(urlsplit(base_url).hostname or "") else []
    return urllib.request.build_opener(_NoRedirections(), *proxies)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(base_url: str) -> str:
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ImagesError(
            f"base_url is {base_url!r}; an address such as https://api.openai.com/v1 is expected", "config"
        )
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + "/images/generations"))


def _check_key(key: str) -> None:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ImagesError("the key has characters that cannot be sent; copy it again", "config")


def _host(base_url: str) -> str:
    return urlsplit(base_url).hostname or base_url


def _refusal(error: urllib.error.HTTPError) -> str:
    """What the server said, and what to do about it."""
    if 300 <= error.code < 400:
        return f"the server redirects elsewhere (status {error.code}); set base_url to the final address"
    try:
        said = msgspec.json.decode(error.read(64 * 1024), type=_Refusal).error
        text = said if isinstance(said, str) else said.message
    except (OSError, ValueError, http.client.HTTPException):
        text = ""
    advice = _ADVICE.get(error.code, "")
    parts = (f"status {error.code}", " ".join(text.split())[:_MAX_MESSAGE_CHARS], advice)
    return ": ".join(part for part in parts if part)


def _image(answer: bytes) -> Image:
    try:
        image = msgspec.json.decode(answer, type=_Answer).data[0]
    except (ValueError, IndexError):
        raise ImagesError("the answer is not what /images/generations promises: no data[0]", "malformed") from None
    if not (image.b64_json or image.url):
        raise ImagesError("the answer holds neither b64_json nor url", "malformed")
    return image
