"""Full-text search over past conversations, as a port: each store has an index of its own kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

import msgspec

from hermes.base.errors import JournalError
from hermes.journal.bodies import clean_text


class Hit(msgspec.Struct, frozen=True):
    """A message that matched."""

    session_id: str
    title: str
    role: str
    snippet: str
    updated_at: float
    message_id: int


class SearchScope(msgspec.Struct, frozen=True):
    """Which messages are searched, and how many are wanted in which order."""

    limit: int
    role: str
    order: str
    principal: str | None
    only: list[str] | None
    without: list[str]


class SearchIndex(ABC):
    """The words of user and assistant messages. Tool output is not indexed."""

    def search(
        self,
        query: str,
        *,
        limit: int = 20,
        role: str = "",
        order: str = "relevance",
        principal: str | None = "",
        only: Iterable[str] | None = None,
        without: Iterable[str] = (),
    ) -> list[Hit]:
        """The best matches first. Words are joined by *and*; "a phrase" in quotes is kept together.

        Only the sessions of one principal are searched, by default those of the owner; None searches all. ``only`` and
        ``without`` name sessions, ``role`` is ``user`` or ``assistant``, ``order`` may be ``newest`` or ``oldest``
        instead.
        """
        terms = terms_of(query)
        if not terms:
            raise JournalError("nothing to search for: give at least one word")
        named = None if only is None else list(only)
        return self._find(terms, SearchScope(limit, role, order, principal, named, list(without)))

    @abstractmethod
    def _find(self, terms: list[str], scope: SearchScope) -> list[Hit]: ...

    @abstractmethod
    def forget(self, session_ids: Iterable[str]) -> None:
        """Remove the words of deleted sessions."""

    def discard(self) -> None:  # noqa: B027  (an index in the database itself has no copies of such facts)
        """The sessions have changed hands: build again whatever of the index says whose they are."""

    def files(self) -> list[Path]:
        """The files of the index, which no other code in this process may open."""
        return []


def terms_of(query: str) -> list[str]:
    """The words and the quoted phrases of a query, without those that have no letter or digit."""
    terms: list[str] = []
    for position, piece in enumerate(clean_text(query.replace("\0", " ")).split('"')):
        terms.extend([piece.strip()] if position % 2 else piece.split())
    return [term for term in terms if any(c.isalnum() for c in term)]
