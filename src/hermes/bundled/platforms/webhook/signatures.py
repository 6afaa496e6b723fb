"""Signatures of webhooks: HMAC over the body, with a time stamp and an id where the scheme has them. No I/O."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping

#: ``standard`` is that of standardwebhooks.com. ``timestamped`` signs the time and the body, ``github`` the body alone.
#: ``token`` compares a fixed token, as GitLab sends it.
SCHEMES = ("standard", "timestamped", "github", "token")

#: How far the time stamp of a request may be from ours, in seconds.
TOLERANCE = 300.0


class SignatureRefused(Exception):
    """A request that its sender did not sign, or long ago. The message says so without details."""


def verify(scheme: str, secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str:
    """Check the signature of a request; the id by which a second delivery is recognised. Raises ``SignatureRefused``.

    The id is one that the signature covers, or a digest of what it covers, so that a request which was recorded and
    is sent again is a second delivery and not a new one.
    """
    if scheme == "standard":
        return _standard(secret, headers, body, now)
    if scheme == "timestamped":
        return _timestamped(secret, headers, body, now)
    if scheme == "github":
        expected = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
        _compare(expected, headers.get("x-hub-signature-256", ""))
        return hashlib.sha256(body).hexdigest()
    _compare(secret, headers.get("x-gitlab-token", ""))
    # The token says nothing about the body, so there is no better id than the one that the sender gives.
    return headers.get("x-gitlab-event-uuid", "")[:200] or hashlib.sha256(body).hexdigest()


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str:
    delivery, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    _check_time(sent_at, now)
    if not 0 < len(delivery) <= 200:
        raise SignatureRefused("webhook-id is missing or too long")
    signed = f"{delivery}.{sent_at}.".encode() + body
    expected = base64.b64encode(hmac.new(standard_key(secret), signed, hashlib.sha256).digest()).decode()
    given = headers.get("webhook-signature", "").split(" ")[:8]  # more than one while a secret is replaced
    if not any(hmac.compare_digest(f"v1,{expected}".encode(), one.encode()) for one in given):
        raise SignatureRefused("the signature is wrong")
    return delivery


def standard_key(secret: str) -> bytes:
    """The key in a secret such as ``whsec_…``; another secret is its own key. Raises ``ValueError``."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except binascii.Error:
        raise ValueError("what follows whsec_ is not base64") from None


def _timestamped(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> str:
    sent_at = headers.get("x-webhook-timestamp", "")
    _check_time(sent_at, now)
    signed = f"{sent_at}.".encode() + body
    _compare(hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest(), headers.get("x-webhook-signature-v2", ""))
    return hashlib.sha256(signed).hexdigest()


def _check_time(text: str, now: float) -> None:
    # A number of at most 12 digits: anything else is no time, and float() would accept more than that.
    if not (text.isdecimal() and text.isascii() and len(text) <= 12) or abs(now - int(text)) > TOLERANCE:
        raise SignatureRefused("the time stamp is missing or too far from the time here")


def _compare(expected: str, given: str) -> None:
    if not hmac.compare_digest(expected.encode(), given.encode()):
        raise SignatureRefused("the signature is wrong")
