"""The session that a request belongs to: named by a header, by the previous response, or found by its history.

Clients of chat completions send the whole conversation with every request. Its fingerprint leads to the session that it
was answered in. A conversation that the session does not have (any more) as its last state is a fork: it continues in
a copy of the session up to the last message that both have in common, and what the client has beyond that is imported.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from hermes.base.errors import JournalError, SessionNotFound
from hermes.base.http_server.principals import API_KEY_VARIABLE, Principal, workspace_of
from hermes.base.scope import new_session_id
from hermes.host import Host
from hermes.journal.history.branching import branch_session, import_exchanges, undo_turns
from hermes.journal.history.rows import TurnFacts
from hermes.journal.leases import SessionInfo, release_lease
from hermes.surfaces.openai_api.content import ClientConversation, ClientMessage
from hermes.surfaces.openai_api.errors import ApiError, invalid, not_found
from hermes.surfaces.openai_api.runs.store import ApiRequestRow, ApiRequests

#: The platform of all sessions of the API.
PLATFORM = "api_server"

_KEY = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,254}")
_NO_ANSWER = "[no answer]"


class SessionHeaders(NamedTuple):
    """The headers with which a client names its conversation."""

    session_id: str = ""
    session_key: str = ""


class ConversationFinder:
    """Finds, forks and makes the sessions of requests. Blocking."""

    def __init__(self, host: Host, requests: ApiRequests) -> None:
        self._host = host
        self._requests = requests

    def owner_of(self, principal: Principal) -> str:
        """The principal that sessions of this caller belong to; empty is the owner of the home."""
        return "" if principal.is_owner else principal.name

    def folder(self, principal: Principal) -> Path:
        """The folder that a caller works in."""
        if principal.is_owner and not principal.workspace:
            return self._host.cwd
        return workspace_of(principal, self._host.home, self._host.cwd)

    # -- named by the client ------------------------------------------------------------------------------------

    def named(self, principal: Principal, headers: SessionHeaders) -> str | None:
        """The session that headers name; None when they name none."""
        if not headers.session_id and not headers.session_key:
            return None
        if not principal.is_authenticated:
            raise ApiError(
                403,
                f"X-Hermes-Session-Id and X-Hermes-Session-Key need a key: set {API_KEY_VARIABLE} in .env, or name "
                f"callers under principals",
                code="key_required",
            )
        if headers.session_id:
            return self.own_session(principal, headers.session_id)
        if _KEY.fullmatch(headers.session_key) is None:
            raise invalid("X-Hermes-Session-Key: 1 to 255 printable ASCII characters are allowed")
        named = f"{principal.name}\0{headers.session_key}".encode()
        session_id = f"api_{hashlib.sha256(named).hexdigest()[:24]}"
        if not self.is_own(principal, session_id, or_new=True):
            raise not_found("X-Hermes-Session-Key: its session is not yours any more", "session_not_found")
        return session_id

    def is_own(self, principal: Principal, session_id: str, *, or_new: bool = False) -> bool:
        """Whether a session belongs to what the caller is now: it may have been the owner once, or a stranger."""
        try:
            return self._host.sessions.get(session_id).principal == self.owner_of(principal)
        except SessionNotFound:
            return or_new

    def own_session(self, principal: Principal, session_id: str) -> str:
        """The id of a session of the caller; one of another caller does not exist."""
        try:
            row = self._host.sessions.get(session_id)
        except SessionNotFound:
            row = None
        if row is None or row.id != session_id or row.principal != self.owner_of(principal):
            raise not_found(f"there is no session {session_id!r} of yours", "session_not_found")
        return row.id

    def after_response(self, principal: Principal, response_id: str) -> str:
        """The session that continues a response: its own, or a fork when that has continued otherwise."""
        row = self._requests.get(response_id, principal.name)
        turn = None if row is None or row.deleted else self._requests.turn(row)
        if turn is None or not self.is_own(principal, turn.session_id):
            message = f"there is no response {response_id!r}"
            raise ApiError(404, message, param="previous_response_id", code="previous_response_not_found")
        if turn.state in ("queued", "running"):
            return turn.session_id  # it is answered first
        return self._continue(principal, turn, [])

    # -- found by history ---------------------------------------------------------------------------------------

    def by_history(self, principal: Principal, conversation: ClientConversation) -> str:
        """The session whose conversation is the history of this request, a fork of one, or a new session."""
        history = conversation.history
        if not history:
            return new_session_id()
        fingerprints = conversation.fingerprints()
        for end in range(len(history) - 1, 0, -1):
            if history[end].role != "assistant":
                continue
            turn = self._turn_with_answer(principal, fingerprints[end - 1], history[end])
            if turn is not None:
                return self._continue(principal, turn, history[end + 1 :])
        return self._imported(principal, new_session_id(), history)

    def _turn_with_answer(self, principal: Principal, fingerprint: str, answer: ClientMessage) -> TurnFacts | None:
        """The turn that answered the conversation with this fingerprint in these words, the last of a session first."""
        turns = [
            turn
            for row in self._requests.with_fingerprint(principal.name, fingerprint)
            if (turn := self._answered(row, answer.text)) is not None and self.is_own(principal, turn.session_id)
        ]
        return next((turn for turn in turns if not any(self._requests.later_turns(turn))), turns[0] if turns else None)

    def _answered(self, row: ApiRequestRow, text: str) -> TurnFacts | None:
        turn = self._requests.turn(row)
        if turn is None or turn.state != "completed":
            return None
        # A stream has what the model said between tool calls, too.
        said = (turn.answer or "").split(), " ".join(self._requests.said_in(turn)).split()
        return turn if text.split() in said else None

    # -- forks --------------------------------------------------------------------------------------------------

    def _continue(self, principal: Principal, turn: TurnFacts, rest: list[ClientMessage]) -> str:
        """The session that has this turn as its last one, and then the rest of the client's history."""
        later, waiting = self._requests.later_turns(turn)
        if not later and not waiting and not rest:
            return turn.session_id
        host, new_id = self._host, new_session_id()
        try:
            branch_session(host.store, host.runner, turn.session_id, new_id)
        except JournalError as error:
            # A turn of it runs now. The copy would have to wait for it.
            raise ApiError(
                409,
                "this conversation is being continued elsewhere; try again when that has ended",
                code="conversation_busy",
                headers=(("Retry-After", "2"),),
            ) from error
        if later:
            undo_turns(host.store, host.runner, new_id, later)
        release_lease(host.store, host.runner, new_id)
        return self._imported(principal, new_id, rest)

    def _imported(self, principal: Principal, session_id: str, messages: list[ClientMessage]) -> str:
        """The session, with messages added that only the client knows."""
        exchanges: list[tuple[dict[str, object], str]] = []
        for message in messages:
            if message.role == "user":
                shown = "\n".join([message.text, *["[an image]"] * len(message.images)])
                exchanges.append(({"role": "user", "content": shown}, _NO_ANSWER))
            elif exchanges:
                exchanges[-1] = (exchanges[-1][0], message.text)
            else:
                exchanges.append(
                    ({"role": "user", "content": "[the conversation began with the answer]"}, message.text)
                )
        if exchanges:
            info = SessionInfo(session_id, str(self.folder(principal)), PLATFORM, principal=self.owner_of(principal))
            import_exchanges(self._host.store, self._host.runner, info, exchanges, self._host.redactor)
        return session_id
