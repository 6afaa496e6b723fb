"""Prepared callbacks: of code that is called behind the turn with what was true while the event happened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class PreparedCallback(ABC):
    """A callback of a background queue whose arguments are made with the turn. ``takes`` names the fields for that."""

    def __init__(self, takes: Callable[..., Any]) -> None:
        import inspect  # few plugins are called like this

        self.__signature__ = inspect.signature(takes)

    @abstractmethod
    def prepare(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """The arguments for these fields of an event; None when the event is not for it. Must not take long."""

    @abstractmethod
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """The call itself."""
