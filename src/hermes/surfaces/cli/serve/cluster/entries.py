"""The entries of all surfaces, for workers: what each of them does around its turns, loaded when a turn needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from hermes.host import Host
from hermes.service.dispatch.port import TurnEntry


class SurfaceEntries(Mapping[str, TurnEntry]):
    """Entries by platform. All others are chats of the gateway, which ask the owner unless they may approve."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._loaded: dict[str, TurnEntry] = {}
        self._known: dict[str, Callable[[Host], TurnEntry]] = {
            "web": _page,
            "api_server": _api,
            "a2a": _task,
            "cron": _scheduled,
            "cli": _one_shot,
        }

    def __getitem__(self, platform: str) -> TurnEntry:
        if platform not in self._loaded:
            self._loaded[platform] = self._known.get(platform, _chat)(self._host)
        return self._loaded[platform]

    def __contains__(self, platform: object) -> bool:
        return isinstance(platform, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _page(host: Host) -> TurnEntry:
    from hermes.surfaces.web.chat import page_entry

    return page_entry(host)


def _api(host: Host) -> TurnEntry:
    from hermes.base.http_server.principals import API_KEY_VARIABLE, read_principals
    from hermes.surfaces.openai_api.runs.acceptance import ApiRuns

    return ApiRuns(host, read_principals(host.config, os.environ, host.redactor, API_KEY_VARIABLE)).entered


def _task(host: Host) -> TurnEntry:
    from hermes.surfaces.a2a.server.entry import task_entry

    return task_entry(host)


def _scheduled(host: Host) -> TurnEntry:
    from hermes.service.dispatch.scheduled import scheduled_entry

    return scheduled_entry(host)


def _one_shot(host: Host) -> TurnEntry:
    from hermes.surfaces.cli.chat.on_workers import remote_entry

    return remote_entry(host)


def _chat(host: Host) -> TurnEntry:
    from hermes.surfaces.gateway.chats.questions import chat_entry

    return chat_entry(host)
