"""The ``vision_analyze`` tool: a question about an image, for the model of ``auxiliary.vision``."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from hermes.agent.images.attachments import MAX_IMAGE_BYTES, image_type
from hermes.base.errors import HermesError
from hermes.tools.files.opening import NotAFile
from hermes.tools.files.paths import kind_of, why
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime

MAX_QUESTION_CHARS = 4_000


def run_vision_analyze(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Ask a model that sees about an image: a file, a URL or a ``data:`` URL."""
    question = str(args["question"]).strip()
    try:
        if not question or len(question) > MAX_QUESTION_CHARS:
            found = f"has {len(question):,} characters" if question else "is empty"
            raise HermesError(f"question {found}; between 1 and {MAX_QUESTION_CHARS:,} are expected")
        part = _image(str(args["image_url"]).strip(), context, runtime)
        endpoints = runtime.open_sessions.endpoints(context.scope.session_id)
        return tool_result(success=True, analysis=runtime.vision.analyze(part, question, endpoints, context.scope))
    except HermesError as error:
        return tool_result(success=False, error=str(error))


def _image(place: str, context: ToolContext, runtime: Runtime) -> dict[str, Any]:
    if place.startswith(("http://", "https://")):
        return _fetched(place, context, runtime)
    if place.startswith("data:"):
        head, _, data = place.partition(",")
        try:
            content = base64.b64decode(data, validate=True) if head.endswith(";base64") else b""
        except ValueError:
            content = b""
        return _part(content, "image_url")
    path = place.removeprefix("file://")
    try:
        with context.open(path, "rb") as file:
            return _part(file.read(MAX_IMAGE_BYTES + 1), place)
    except NotAFile as error:
        raise HermesError(f"{error.path} is {kind_of(error.mode)}, not an image") from None
    except ValueError as error:
        raise HermesError(str(error)) from None
    except OSError as error:
        raise HermesError(f"{error.filename or path} cannot be read: {why(error)}") from None


def _fetched(url: str, context: ToolContext, runtime: Runtime) -> dict[str, Any]:
    from hermes.base.http.fetch import fetch

    if context.confinements.redactor.mask_known(url) != url:
        raise HermesError("image_url contains a secret of the user, which must not leave; it was not fetched")
    try:
        # The owner's network is not that of a caller.
        allowed = runtime.config.security.allow_private_urls and not context.scope.principal
        data = fetch(
            url, max_bytes=MAX_IMAGE_BYTES, timeout=20.0, allow_private=allowed, client=runtime.models.driver.http
        ).data
    except (OSError, ValueError) as error:
        raise HermesError(f"{url} cannot be fetched: {error}") from None
    return _part(data, url)


def _part(data: bytes, label: str) -> dict[str, Any]:
    kind = image_type(data)
    if kind is None or len(data) > MAX_IMAGE_BYTES:
        raise HermesError(f"{label} is not a PNG, JPEG, GIF or WebP image of at most {MAX_IMAGE_BYTES:,} bytes")
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{base64.b64encode(data).decode()}"}}
