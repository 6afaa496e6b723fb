"""What a plugin registered, one small record per kind of thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct


class Command(Struct, frozen=True):
    """A slash command: ``handler(raw_args)`` returns text, nothing, or a coroutine of either."""

    name: str
    handler: Callable[[str], Any]
    description: str
    args_hint: str
    plugin: str


class CliCommand(Struct, frozen=True):
    """A subcommand of ``hermes``: ``setup_fn(parser)`` adds its arguments, ``handler_fn(args)`` runs it."""

    name: str
    help: str
    setup_fn: Callable[[Any], Any]
    handler_fn: Callable[[Any], Any] | None
    description: str
    plugin: str


class Skill(Struct, frozen=True):
    """A read-only skill, named ``plugin:skill``."""

    name: str
    path: Path
    description: str
    plugin: str


class AuxiliaryTaskEntry(Struct, frozen=True):
    """A side job for a model, configured under ``auxiliary.<key>``."""

    key: str
    display_name: str
    description: str
    defaults: Mapping[str, Any]
    plugin: str


class Waiting(Struct, frozen=True):
    """A registration for a part of the runtime that is not there yet; kept so that it can be picked up."""

    #: What it was registered as, such as ``platform`` or ``web_search_provider``.
    what: str
    name: str
    value: Any
    options: dict[str, Any] = {}
