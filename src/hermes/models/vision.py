"""Detects whether a model takes images: by configuration, by the price data, by the model's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from hermes.models.costs.price_lookup import known_model
from hermes.models.endpoint import Endpoint

#: Names that say a model sees, whatever family it belongs to.
_SEES = r"vision|multimodal|omni|llava|pixtral|\bvlm?\b|\d-?v(?:l)?\b|[-_]vlm?\d*(?:[-_:]|$)"
#: Families that take text alone.
_BLIND = r"""(?x)^(?:
        gpt-3 | gpt-oss | o1-mini | o1-preview | o3-mini | davinci | babbage
      | deepseek-(?:chat|reasoner|coder|v[23]|r1)
      | (?:open-)?mi[sx]tral-(?:7b|8x) | mixtral | codestral | mistral-nemo
      | llama-?[12](?:\b|-|:) | (?:meta-)?llama-?3(?:\.[013])?(?:-|:|$) | codellama
      | qwq | qwen[\d.]*-?coder | gemma-?2(?:-|:|$) | gemma-[27]b | command-r | starcoder
      | phi-?[23](?:\.5)?(?:-mini|:|$)
      | kimi-k2(?!\.) | glm-4\.[56](?!v) | minimax-m2 | hermes-[234]
    )"""


def sees_images(endpoint: Endpoint) -> bool | None:
    """Whether the model at an endpoint takes images; ``None`` when nothing is known about it."""
    if endpoint.sees_images is not None:
        return endpoint.sees_images
    known = known_model(endpoint)
    if known is not None and known.charges_for_images:
        return True
    return _by_name(endpoint.model)


def able_to_read(endpoints: Sequence[Endpoint], messages: Sequence[dict[str, Any]]) -> Sequence[Endpoint]:
    """The endpoints without fallbacks that cannot see, where a message has an image.

    The first stays: the messages were written for it.
    """
    if len(endpoints) == 1 or not any(map(_has_image, messages)):
        return endpoints
    return [endpoints[0], *(endpoint for endpoint in endpoints[1:] if sees_images(endpoint) is not False)]


def _has_image(message: dict[str, Any]) -> bool:
    content: Any = message.get("content")
    return isinstance(content, list) and any(part.get("type") == "image_url" for part in cast("list[Any]", content))


def _by_name(model: str) -> bool | None:
    import re  # few messages have images

    name = model.lower().rpartition("/")[2]
    if re.search(_SEES, name):
        return True
    return False if re.match(_BLIND, name) else None
