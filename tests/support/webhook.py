"""A receiver of A2A push notifications: the kit's webhook receiver, and the states it was told of."""

from __future__ import annotations

from typing import Any

from hermes.testing import WebhookReceiver


class Webhook(WebhookReceiver):
    """What it was told, and what it answers."""

    @property
    def bodies(self) -> list[bytes]:
        return [post.body for post in self.posts]

    @property
    def headers(self) -> list[dict[str, str]]:
        return [post.headers for post in self.posts]

    @property
    def states(self) -> list[str]:
        """The states it was told of, ``artifact`` for a piece of an answer."""
        return [_state(post.json()) for post in self.posts]

    def wait(self, count: int) -> None:
        """Wait until it was called so often."""
        self.wait_for_posts(count)


def _state(document: dict[str, Any]) -> str:
    event = document.get("task") or document.get("statusUpdate")
    return event["status"]["state"].removeprefix("TASK_STATE_").lower() if event else "artifact"


webhook = Webhook
