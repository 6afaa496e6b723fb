"""Makes images at an endpoint that speaks OpenAI's ``/images/generations``."""

# The host offers these names to plugins alone, so a type checker cannot find them.
# pyright: reportMissingImports=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

import os
from typing import Any

from agent.image_gen_provider import (
    ImageGenProvider,
    error_response,
    resolve_aspect_ratio,
    save_b64_image,
    save_url_image,
    success_response,
)

from .request import ImagesError, generate

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-image-1"
DEFAULT_TIMEOUT = 180.0

#: What each shape is in pixels. Families of models know different sizes.
SIZES = {
    "dall-e-3": {"landscape": "1792x1024", "square": "1024x1024", "portrait": "1024x1792"},
    "dall-e-2": {"landscape": "1024x1024", "square": "1024x1024", "portrait": "1024x1024"},
    "": {"landscape": "1536x1024", "square": "1024x1024", "portrait": "1024x1536"},
}


class OpenAIImages(ImageGenProvider):
    """The provider. Its settings are read for each image, so that a change needs no restart."""

    name = "openai"

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    def is_available(self) -> bool:
        """Whether there is a key, or an address of one's own, which may do without."""
        return bool(self._key()) or bool(self._setting("base_url"))

    def default_model(self) -> str:
        return self._setting("model") or DEFAULT_MODEL

    def generate(self, prompt: str, aspect_ratio: str = "landscape", **options: Any) -> dict[str, Any]:
        """One image, saved to a file."""
        ratio = resolve_aspect_ratio(aspect_ratio)
        model = str(options.get("model") or self.default_model())
        about = {"provider": self.name, "model": model, "prompt": prompt, "aspect_ratio": ratio}
        try:
            answer = generate(
                self._ctx.http,
                base_url=self._setting("base_url") or DEFAULT_BASE_URL,
                key=self._key(),
                body={"model": model, "prompt": prompt, "n": 1, "size": _size(model, ratio)},
                timeout=float(self._setting("timeout") or DEFAULT_TIMEOUT),
            )
            image = save_b64_image(answer.b64_json) if answer.b64_json else save_url_image(answer.url)
        except ImagesError as error:
            return error_response(error=str(error), error_type=error.kind, **about)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            return error_response(error=f"the image cannot be saved: {reason}", error_type="io_error", **about)
        extra = {"revised_prompt": answer.revised_prompt} if answer.revised_prompt else None
        return success_response(image=str(image), extra=extra, **about)

    def _key(self) -> str:
        variable = self._setting("key_env") or "OPENAI_API_KEY"
        return self._setting("api_key") or os.environ.get(variable, "").strip()

    def _setting(self, name: str) -> str:
        value = self._ctx.settings.get(name)
        return str(value).strip() if value is not None else ""


def _size(model: str, ratio: str) -> str:
    family = next(name for name in SIZES if model.startswith(name))
    return SIZES[family][ratio]


def register(ctx: Any) -> None:
    """Offer the provider under the name ``openai``."""
    ctx.register_image_gen_provider(OpenAIImages(ctx))
