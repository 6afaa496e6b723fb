"""Joining emitter: a hook that fires many times a second, whose waiting pieces reach a slow callback as one."""

from __future__ import annotations

from threading import Lock
from typing import Any

from hermes.contract.hooks import HOOKS
from hermes.hooks.observers import Answer, E, Emitter, Subscriber

#: A subscriber, and the stream that a piece belongs to.
_Place = tuple[int, Any]


class _Pieces:
    """Pieces of one kind that a callback has not been given yet."""

    __slots__ = ("kind", "pieces")

    def __init__(self, kind: Any, piece: str) -> None:
        self.kind = kind
        self.pieces = [piece]


class JoiningEmitter(Emitter[E]):
    """Delivers behind the turn. Pieces that follow each other while a callback is busy are joined, and none is lost.

    So a slow callback holds up neither the stream nor other callbacks, and needs one place in the queue however many
    pieces arrive.
    """

    __slots__ = ("_joined", "_lock", "_waiting")

    def __init__(self, hook: str, subscribers: tuple[Subscriber, ...]) -> None:
        super().__init__(hook, subscribers)
        self._joined = HOOKS[hook].joined
        self._lock = Lock()
        self._waiting: dict[_Place, _Pieces] = {}

    def _deliver(self, payload: dict[str, Any]) -> list[Answer]:
        stream, kind = payload.get("api_request_id"), payload.get("kind")
        piece: str = payload.get(self._joined, "")
        for subscriber in self.subscribers:
            place = (id(subscriber), stream)
            with self._lock:
                waiting = self._waiting.get(place)
                if waiting is not None and waiting.kind == kind:
                    waiting.pieces.append(piece)
                    continue
                self._waiting[place] = waiting = _Pieces(kind, piece)
            self._queue(subscriber, place, waiting, payload)
        return []

    def _queue(self, subscriber: Subscriber, place: _Place, waiting: _Pieces, payload: dict[str, Any]) -> None:
        def take() -> dict[str, Any]:
            self._forget(place, waiting)
            return subscriber.arguments({**payload, self._joined: "".join(waiting.pieces)})

        if not subscriber.deliver_later(take):
            self._forget(place, waiting)

    def _forget(self, place: _Place, waiting: _Pieces) -> None:
        """Add nothing more to these pieces."""
        with self._lock:
            if self._waiting.get(place) is waiting:
                del self._waiting[place]
