"""The entries of all surfaces, for workers: what each of them does around its turns, loaded when a turn needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hermes.agent.approvals.responder import ApprovalAnswer, ApprovalRequest
from hermes.agent.session import Session
from hermes.dispatch.port import TurnEntry
from hermes.errors import TurnSuspended
from hermes.host import Host
from hermes.journal.turns import Submission
from hermes.scope import Interrupt


class SurfaceEntries(Mapping[str, TurnEntry]):
    """Entries by platform. A platform without one of its own asks its questions at its surface, which answers later."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._loaded: dict[str, TurnEntry] = {}
        self._known: dict[str, Callable[[Host], TurnEntry]] = {"web": _page, "api_server": _api}

    def __getitem__(self, platform: str) -> TurnEntry:
        if platform not in self._loaded:
            self._loaded[platform] = self._known.get(platform, _asking)(self._host)
        return self._loaded[platform]

    def __contains__(self, platform: object) -> bool:
        return isinstance(platform, str)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _page(host: Host) -> TurnEntry:
    from hermes.web.chat import page_entry

    return page_entry(host)


def _api(host: Host) -> TurnEntry:
    from hermes.gateway.api.runs import ApiRuns
    from hermes.http_server.principals import read_principals

    return ApiRuns(host, read_principals(host.config, os.environ, host.redactor)).entered


class _LaterResponder:
    """A user at another process: the question waits in the journal, and the turn holds no slot meanwhile."""

    def __init__(self, surface: str) -> None:
        self.surface = surface

    def approve(self, request: ApprovalRequest, interrupt: Interrupt) -> ApprovalAnswer:
        interrupt.check()
        raise TurnSuspended(None)

    def answer(self, question: str, choices: Sequence[str], interrupt: Interrupt) -> str | None:
        interrupt.check()
        raise TurnSuspended(None)


def _asking(host: Host) -> TurnEntry:
    @contextmanager
    def entered(session: Session, submission: Submission) -> Generator[None]:
        host.responders.attach(session.id, _LaterResponder(submission.source))
        try:
            yield
        finally:
            host.responders.detach(session.id)

    return entered
