"""Redaction of secrets and size limits for data that leaves the runtime: plugin payloads, exports, the log."""

from __future__ import annotations

from hermes.base.sanitize.keys import REDACTED, is_secret_key
from hermes.base.sanitize.payload import Memo, payload_limit, sanitise
from hermes.base.sanitize.text import MaskedStream, Redactor, has_mark, redact_text

__all__ = [
    "REDACTED",
    "MaskedStream",
    "Memo",
    "Redactor",
    "has_mark",
    "is_secret_key",
    "payload_limit",
    "redact_text",
    "sanitise",
]
