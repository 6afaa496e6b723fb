"""Deliveries to the webhook platform of a gateway, signed as its route wants them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
import urllib.request

from support.waiting import HANG


def post_signed(port: int, body: bytes, secret: str) -> int:
    """Deliver the same message to the route ``build``; the status of the answer."""
    sent_at = str(int(time.time()))
    digest = hmac.new(secret.encode(), f"msg_1.{sent_at}.".encode() + body, hashlib.sha256).digest()
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": sent_at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
    request = urllib.request.Request(f"http://127.0.0.1:{port}/webhooks/build", body, headers)
    with urllib.request.urlopen(request, timeout=HANG) as response:
        return response.status
