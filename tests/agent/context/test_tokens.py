"""How long a conversation is taken to be."""

from __future__ import annotations

from typing import Any

import msgspec

from hermes.agent.context.tokens import estimate, message_tokens, text_tokens


def test_text_beyond_ascii_takes_more() -> None:
    assert text_tokens("") == 0
    assert text_tokens("abcdefgh") < text_tokens("äöüßéèçñ")


def test_calls_and_images_count() -> None:
    plain: dict[str, Any] = {"role": "assistant", "content": "I look."}
    call = {"id": "1", "type": "function", "function": {"name": "ls", "arguments": '{"path": "' + "a" * 400 + '"}'}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert message_tokens({**plain, "tool_calls": [call]}) > message_tokens(plain) + 100
    assert message_tokens({**plain, "content": [{"type": "text", "text": "I look."}, image]}) > 1_000


def test_reasoning_that_goes_back_counts() -> None:
    carry = {"api_mode": "anthropic_messages", "items": [{"type": "thinking", "thinking": "hm " * 1_000}]}
    plain: dict[str, Any] = {"role": "assistant", "content": "Done."}
    sent = len(msgspec.json.encode(carry["items"])) // 4
    assert estimate([{**plain, "carry": {**carry, "reasoning": "kept for others"}}]) == estimate([plain]) + sent
