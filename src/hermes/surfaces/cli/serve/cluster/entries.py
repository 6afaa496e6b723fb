"""The entries of all surfaces, for workers: what each of them does around its turns, loaded when a turn needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module

from hermes.host import Host
from hermes.service.dispatch.port import TurnEntry

#: Platform -> the function that makes its entry.
_MAKERS = {
    "web": "hermes.surfaces.web.chat:page_entry",
    "api_server": "hermes.surfaces.cli.serve.cluster.entries:api_entry",
    "a2a": "hermes.surfaces.a2a.server.entry:task_entry",
    "cron": "hermes.service.dispatch.scheduled:scheduled_entry",
    "cli": "hermes.surfaces.cli.chat.on_workers:remote_entry",
}
_OTHERS = "hermes.surfaces.gateway.chats.questions:chat_entry"


class SurfaceEntries(Mapping[str, TurnEntry]):
    """Entries by platform. All others are chats of the gateway, which ask the owner unless they may approve."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._made: dict[str, TurnEntry] = {}

    def __getitem__(self, platform: str) -> TurnEntry:
        if platform not in self._made:
            module, _, name = _MAKERS.get(platform, _OTHERS).partition(":")
            self._made[platform] = getattr(import_module(module), name)(self._host)
        return self._made[platform]

    def __iter__(self) -> Iterator[str]:
        return iter(_MAKERS)

    def __len__(self) -> int:
        return len(_MAKERS)


def api_entry(host: Host) -> TurnEntry:
    """What the API does around its turns."""
    from hermes.base.http_server.principals import API_KEY_VARIABLE, read_principals
    from hermes.surfaces.openai_api.runs.acceptance import ApiRuns

    return ApiRuns(host, read_principals(host.config, os.environ, host.redactor, API_KEY_VARIABLE)).entered
