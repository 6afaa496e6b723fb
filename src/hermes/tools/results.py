"""Tool results as JSON strings that always encode, with any bytes in file names or output."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from hermes.base.sanitize.surrogates import encodable

_encoder = msgspec.json.Encoder(enc_hook=str)


def tool_result(**fields: Any) -> str:
    """The fields as a JSON object."""
    try:
        return _encoder.encode(fields).decode()
    except UnicodeEncodeError:
        # Invalid bytes in a file name become lone surrogates, which JSON in UTF-8 cannot represent.
        return _encoder.encode(encodable(fields)).decode()


def tool_error(message: str, **extra: Any) -> str:
    """A failed call: ``{"error": message}`` and further fields for the model."""
    return tool_result(error=message, **extra)


#: Fields of a failed call that a tool writes itself.
_OWN_FIELDS = frozenset({"error", "error_type", "outcome", "status", "similar_files"})


def is_only_error(result: str) -> bool:
    """Whether a result says why a call failed and nothing else: no output, no content, no answer."""
    try:
        fields = msgspec.json.decode(result, type=dict[str, Any])
    except msgspec.DecodeError:
        return False
    others = [value for name, value in fields.items() if name not in _OWN_FIELDS]
    return not any(value for value in others if not isinstance(value, int | float))


def mark_untrusted(text: str, secret: str = "") -> str:
    """The text between marks that say that strangers wrote it.

    Its author cannot know the id of the marks, so a closing mark inside the text does not end it. The id is made from
    ``secret``, which the author does not know either, so that a run that is run again has the same marks.
    """
    import hashlib  # few runs have such texts

    random = hashlib.sha256(secret.encode()).digest() if secret else os.urandom(2)
    mark = f"untrusted {random[:2].hex()}"
    return f"<{mark}>\n{text}\n</{mark}>"


def is_marked(text: str) -> bool:
    """Whether a message begins with such a mark."""
    return text.startswith("<untrusted ")
