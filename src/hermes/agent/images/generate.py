"""The ``image_generate`` tool: images by the provider that a plugin registered, stored in the home."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hermes.agent.workers import Workers, wait_for
from hermes.base.config.principals import make_private, principal_home
from hermes.base.config.schema.sections import ImageGenConfig
from hermes.base.errors import HermesError, Interrupted
from hermes.base.scope import Interrupt
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_result

if TYPE_CHECKING:
    from hermes.agent.runtime import Runtime
    from hermes.plugins.registry import PluginSet, ProviderOffer

#: A larger image is refused, whatever its provider says.
MAX_IMAGE_BYTES = 25 * 1024 * 1024
MAX_PROMPT_CHARS = 8_000


class ImageMaker:
    """The provider that ``image_gen.provider`` selects, or the only one there is."""

    def __init__(
        self,
        home: Path,
        settings: ImageGenConfig,
        plugins: Callable[[], PluginSet],
        workers: Workers,
        *,
        allow_private: bool,
    ) -> None:
        self._home = home
        self._provider = settings.provider.strip()
        self._options = {"model": settings.model} if settings.model else {}
        self._plugins = plugins
        self._workers = workers
        self._allow_private = allow_private

    def is_available(self) -> bool:
        """Whether there is a provider that can work here, found out without a network call."""
        offer = self._offer()
        return not isinstance(offer, str) and bool(offer.value.is_available())

    def make(self, prompt: str, aspect_ratio: str, interrupt: Interrupt, principal: str = "") -> dict[str, Any]:
        """What the provider answers, with ``image`` as the path of a file in the principal's folder.

        Raises ``HermesError`` when there is no image, and ``Interrupted`` when the call is cancelled.
        """
        offer = self._offer()
        if isinstance(offer, str):
            raise HermesError(f"image_gen.provider: {offer}")
        # A provider waits for a server, and does not know the interrupt.
        task = self._workers.submit(lambda: self._make(offer, prompt, aspect_ratio, principal))
        if not wait_for([task], interrupt):
            raise Interrupted(interrupt.reason)
        return task.result()

    def _make(self, offer: ProviderOffer, prompt: str, aspect_ratio: str, principal: str) -> dict[str, Any]:
        from hermes.hooks.callback import describe

        try:
            answer: object = offer.value.generate(prompt, aspect_ratio=aspect_ratio, **self._options)
        except (Exception, SystemExit) as error:
            raise HermesError(f"{offer.name} failed: {describe(error)}") from None
        if not isinstance(answer, dict):
            raise HermesError(f"{offer.name} answered with {type(answer).__name__}; a dict is expected")
        made = cast("dict[str, Any]", answer)
        image = made.get("image")
        if not made.get("success") or not isinstance(image, str) or not image:
            raise HermesError(str(made.get("error") or f"{offer.name} made no image and does not say why"))
        return {**made, "image": str(self._keep(image, principal))}

    def _offer(self) -> ProviderOffer | str:
        return self._plugins().choose("image_gen_provider", self._provider)

    def _keep(self, image: str, principal: str) -> Path:
        """Put what the provider made (a file, an address or the data itself) into the home, for its owner alone."""
        from hermes.agent.images.attachments import EXTENSIONS, image_type

        data = self._data_of(image)
        kind = image_type(data)
        if kind is None:
            raise HermesError("the provider's answer is not a PNG, JPEG, GIF or WebP image")
        folder = make_private(principal_home(self._home, principal) / "images")
        name = f"image_{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(4).hex()}.{EXTENSIONS[kind]}"
        path = folder / name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(data)
        return path

    def _data_of(self, image: str) -> bytes:
        if image.startswith("data:"):
            import base64

            return base64.b64decode(image.partition(",")[2])
        try:
            if image.lower().startswith(("http://", "https://")):
                from hermes.base.http.fetch import fetch

                return fetch(image, max_bytes=MAX_IMAGE_BYTES, allow_private=self._allow_private).data
            return self._taken_over(Path(image))
        except OSError as error:
            raise HermesError(f"the image cannot be fetched: {error.strerror or error}") from None
        except ValueError as error:
            raise HermesError(f"the image cannot be fetched: {error}") from None

    def _taken_over(self, made: Path) -> bytes:
        """The content of a provider's file. One in the home's cache moves, so that the image is kept once."""
        if made.stat().st_size > MAX_IMAGE_BYTES:
            raise ValueError(f"{made} is larger than {MAX_IMAGE_BYTES:,} bytes")
        data = made.read_bytes()
        if made.resolve().parent == (self._home / "cache" / "images").resolve():
            made.unlink()
        return data


def run_image_generate(args: Args, context: ToolContext, runtime: Runtime) -> str:
    """Make one image and answer with the path of its file."""
    prompt = str(args["prompt"]).strip()
    if not prompt or len(prompt) > MAX_PROMPT_CHARS:
        found = f"has {len(prompt):,} characters" if prompt else "is empty"
        return _no_image(f"prompt {found}; between 1 and {MAX_PROMPT_CHARS:,} are expected")
    try:
        shape, scope = str(args.get("aspect_ratio") or "landscape"), context.scope
        made = runtime.images.make(prompt, shape, scope.interrupt, scope.principal)
    except HermesError as error:
        return _no_image(str(error))
    return tool_result(**made)


def _no_image(error: str) -> str:
    return tool_result(success=False, image=None, error=error)
