"""Decisions of plugins about a step: which of them changed, answered, asked about or refused it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec


class PluginDecision(msgspec.Struct, frozen=True):
    """One thing that a plugin did to a step. It is part of the step's record."""

    plugin: str
    #: The hook, or the kind of middleware.
    site: str
    did: Literal["changed", "answered", "blocked", "asked", "added"]


class PluginCallback(Protocol):
    """A callback that names its plugin."""

    @property
    def plugin(self) -> str: ...


class PluginChain(Protocol):
    """The execution middleware of one kind."""

    @property
    def kind(self) -> str: ...

    @property
    def callbacks(self) -> Sequence[PluginCallback]: ...


def decisions_of(chain: PluginChain, did: Literal["changed", "answered"]) -> list[PluginDecision]:
    """What execution middleware did. Its callbacks are nested, so each of them may have had a part in it."""
    return [PluginDecision(callback.plugin, chain.kind, did) for callback in chain.callbacks]
