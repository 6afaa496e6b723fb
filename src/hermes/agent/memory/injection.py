"""Prompt injection filter for notes: refuses text that gives the model orders, and secrets."""

from __future__ import annotations

import re
from functools import cache

from hermes.base.sanitize import Redactor

#: Invisible characters, which can hide an injected order in a harmless text, or reverse its direction. The joiners that
#: emoji and several scripts need are not among them.
_INVISIBLE = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

#: Patterns of prompt injection. Notes are part of every later system prompt, so such a text is not kept.
_PATTERNS = (
    (
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}"
        r"\b(?:previous|prior|above|earlier|preceding|system|safety|all|any|your)\b"
        r"[^.\n]{0,30}\b(?:instructions?|prompts?|rules?|guidelines?|directives?)\b",
        "it tells the reader to ignore instructions",
    ),
    (
        r"\byou (?:are|act) now (?:a|an|in|free|no longer|unrestricted|the)\b"
        r"|\bpretend (?:to be|that you are|you are)\b[^.\n]{0,40}\b(?:unrestricted|no (?:rules|limits|restrictions))\b",
        "it gives the reader another role",
    ),
    (
        r"\b(?:do not|don't|never)\b[^.\n]{0,20}\b(?:tell|inform|alert|notify|reveal|mention|show)\b[^.\n]{0,30}"
        r"\b(?:the )?(?:user|human|person|owner|operator)\b",
        "it asks to keep something from the user",
    ),
    (
        r"\b(?:new|updated|real|hidden) system (?:prompt|message|instructions?)\b"
        r"|\bsystem prompt (?:override|is now)\b|\b(?:reveal|print|repeat|output) (?:the|your) system prompt\b",
        "it speaks as a system prompt",
    ),
    (
        r"<\s*/?\s*(?:system|assistant|developer|tool|function|memory-context|instructions?)\b[^>]{0,40}>"
        r"|<\|[a-z_]{2,20}\|>|\[/?inst\]",
        "it has the marks that separate speakers in a prompt",
    ),
    (
        r"\b(?:curl|wget|nc|fetch|post|send|upload|forward)\b[^\n]{0,120}"
        r"(?:\$\{?\w*(?:key|token|secret|passw)|\.env\b|id_(?:rsa|ed25519)|authorized_keys|\.aws/|auth\.json)",
        "it would send credentials away",
    ),
)


def refusal(text: str, redactor: Redactor) -> str | None:
    """Why a text must not be kept as a note, as text for the model; None when it may."""
    injection = injection_in(text)
    if injection is not None:
        return (
            f"this looks like an instruction planted in a note: {injection}. State it as a plain fact, or leave it out"
        )
    if redactor.suspects(text):
        return (
            "this looks like it holds a key, a token or a password. Notes are plain text that every prompt carries; "
            "note where the secret is kept instead of the secret"
        )
    return None


def injection_in(text: str) -> str | None:
    """What makes a text look like prompt injection rather than a note, if anything does."""
    if _INVISIBLE.search(text):
        return "it has invisible characters"
    if _CONTROL.search(text):
        return "it has control characters"
    import unicodedata

    # Look-alike letters and line breaks must not defeat the patterns.
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = re.sub(r"[ \t]*\n[ \t]*", " ", plain)
    return next((reason for pattern, reason in _compiled_patterns() if pattern.search(plain)), None)


@cache
def _compiled_patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), reason) for pattern, reason in _PATTERNS)
