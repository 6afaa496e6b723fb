"""Whether a model takes images: configured, from its provider, from the price data, from its name, or not known."""

from __future__ import annotations

import pytest

from hermes.models.endpoint import Endpoint
from hermes.models.vision import able_to_read, sees_images


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        ("gpt-4o", None),
        ("openai/gpt-5-mini", None),
        ("claude-sonnet-4", None),
        ("gemini-2.5-pro", None),
        ("meta-llama/llama-3.2-11b-vision-instruct", True),
        ("meta-llama/Llama-4-Scout", None),
        ("qwen2.5-vl-72b", True),
        ("deepseek-vl2", True),
        ("glm-4.5v", True),
        ("gemma-3-27b-it", None),
        ("phi-4-multimodal", True),
        ("moonshotai/kimi-k2.5", None),
        ("something-nobody-knows", None),
        ("gpt-3.5-turbo", False),
        ("o3-mini", False),
        ("openai/gpt-oss-120b", False),
        ("deepseek/deepseek-chat", False),
        ("deepseek-r1:14b", False),
        ("deepseek-v3.1", False),
        ("mixtral-8x7b-instruct", False),
        ("mistral-7b-instruct", False),
        ("meta-llama/Llama-3.3-70B-Instruct", False),
        ("llama3:8b", False),
        ("llama-2-70b-chat", False),
        ("qwen2.5-coder:32b", False),
        ("qwen3-coder-480b", False),
        ("gemma-2-9b", False),
        ("gemma2:9b", False),
        ("moonshotai/kimi-k2-instruct", False),
        ("z-ai/glm-4.6", False),
        ("", None),
    ],
)
def test_the_name_tells(model: str, sees: bool | None) -> None:
    assert sees_images(Endpoint("http://127.0.0.1:1/v1", model)) is sees


@pytest.mark.parametrize("known", [True, False])
def test_what_is_known_of_the_endpoint_wins(known: bool) -> None:
    assert sees_images(Endpoint("http://127.0.0.1:1/v1", "gpt-3.5-turbo", sees_images=known)) is known
    assert sees_images(Endpoint("http://127.0.0.1:1/v1", "some-vision-model", sees_images=known)) is known


def test_a_model_that_charges_for_images_sees_them() -> None:
    assert sees_images(Endpoint("https://api.openai.com/v1", "gpt-realtime")) is True
    assert sees_images(Endpoint("http://127.0.0.1:1/v1", "gpt-realtime")) is None


IMAGE = {
    "role": "user",
    "content": [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": "data:"}}],
}
TEXT = {"role": "user", "content": "hello"}
BLIND, SEER, UNKNOWN = (
    Endpoint("http://127.0.0.1:1/v1", name) for name in ("gpt-3.5-turbo", "some-vision-model", "whatever")
)


def test_stand_ins_that_cannot_see_get_no_images() -> None:
    assert able_to_read([SEER, BLIND, UNKNOWN], [TEXT, IMAGE]) == [SEER, UNKNOWN]
    assert able_to_read([SEER, BLIND], [TEXT]) == [SEER, BLIND]
    # Whether the first takes it was decided when the messages were written.
    assert able_to_read([BLIND, SEER], [IMAGE]) == [BLIND, SEER]
    assert able_to_read([BLIND], [IMAGE]) == [BLIND]
