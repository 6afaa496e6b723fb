"""Budgets: what a turn, a session, a day, a child, a plugin or a principal may spend on models.

Every model call is checked before it is sent: the amounts spent, those reserved by calls that run at the same time, and
the upper bound of the call itself must fit under each limit that applies. The check and the reservation are one step
under one lock, so that children in parallel cannot spend the same room twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hermes.agent.context.tokens import estimate, tools_tokens
from hermes.agent.llm.model_runtime import OUTPUT_LIMITS
from hermes.base.config.schema.sections import BudgetLimitsConfig, BudgetsConfig
from hermes.base.errors import BudgetExceeded, TurnSuspended
from hermes.journal.usage.plugins import calls_in_session
from hermes.journal.usage.sums import Spent, spent_in_session, spent_in_turn, spent_today
from hermes.models.costs.price_lookup import known_model
from hermes.models.costs.usage import Usage

if TYPE_CHECKING:
    from hermes.agent.approvals.responder import Responders
    from hermes.agent.pipelines.attempt import Attempt
    from hermes.base.scope import Scope
    from hermes.journal.store.port import Store
    from hermes.models.costs.prices import Rates
    from hermes.models.endpoint import Endpoint

log = logging.getLogger("hermes.budgets")

#: What is assumed of an answer whose length is not limited.
ANSWER_TOKENS = 4_096
#: A shorter answer than this is not worth a call.
LEAST_ANSWER_TOKENS = 256
#: The field that limits an answer, by request format.
_LIMIT_FIELDS = {"anthropic_messages": "max_tokens", "codex_responses": "max_output_tokens"}

Kind = Literal["turn", "session", "day", "child", "plugin", "principal"]
_WHOSE: dict[Kind, str] = {
    "turn": "this turn",
    "session": "this session",
    "day": "this day",
    "child": "this child",
    "plugin": "this plugin today",
    "principal": "this principal today",
}
CONTINUE, STOP = "Continue", "Stop"
_NOTHING = Spent()


class CallBound(NamedTuple):
    """The most that one call may take."""

    prompt_tokens: int
    answer_tokens: int
    rates: Rates | None = None

    def spent(self) -> Spent:
        """As an amount."""
        return Spent(self._usd(self.answer_tokens), self.prompt_tokens + self.answer_tokens, 0.0, 1)

    def answer_within(self, room: Spent) -> int:
        """How long the answer may be at most, so that the call fits into what is left."""
        fits = min(self.answer_tokens, room.tokens - self.prompt_tokens)
        each = self._usd(1_000) - self._usd(0)
        if each > 0:
            fits = min(fits, int((room.usd - self._usd(0)) / each * 1_000))
        return fits if room.calls >= 1 and room.usd >= self._usd(0) else 0

    def _usd(self, answer_tokens: int) -> float:
        if self.rates is None:
            return 0.0
        return self.rates.cost(Usage(input_tokens=self.prompt_tokens, output_tokens=answer_tokens))


@dataclass(slots=True)
class Account:
    """One budget: its limits, what is spent, and what running calls have reserved."""

    kind: Kind
    id: str
    limits: BudgetLimitsConfig
    #: The setting of each limit.
    settings: dict[str, str]
    #: What all processes have spent, for a budget that they share; such a sum is read anew for each check.
    shared: Callable[[frozenset[str]], Any] | None = None
    #: Whether the upper bound of a call has to fit; else one that begins below the limit may end above it.
    is_strict: bool = True
    started: float = field(default_factory=time.time)
    spent: Spent = _NOTHING
    reserved: Spent = _NOTHING
    #: Calls that ended here and whose rows may not be written yet, by their ids.
    unwritten: dict[str, Spent] = field(default_factory=dict[str, Spent])
    #: How often a person let it continue beyond its limits.
    extensions: int = 0
    has_warned: bool = False

    def used(self) -> Spent:
        """What is spent by now."""
        if self.shared is None:
            return self.spent
        found = self.shared(frozenset(self.unwritten))
        for request_id in found.written:
            self.unwritten.pop(request_id, None)
        total: Spent = found.spent.plus(self.spent)
        for one in self.unwritten.values():
            total = total.plus(one)
        return total

    def room(self, used: Spent) -> Spent:
        """What is left for another call; a limit that is not set leaves plenty."""
        taken, limits, times = used.plus(self.reserved), self.limits, self.extensions + 1
        seconds = time.time() - self.started if self.kind in ("turn", "child") else taken.seconds
        return Spent(
            _left(limits.usd, taken.usd, times),
            int(_left(limits.tokens, taken.tokens, times)),
            _left(None if limits.minutes is None else limits.minutes * 60, seconds, times),
            int(_left(limits.calls, taken.calls, times)),
        )

    def obstacle(self, used: Spent, bound: CallBound, spare_calls: int) -> str:
        """Why a call does not fit, as part of a sentence; empty when it does."""
        room, most = self.room(used), bound.spent() if self.is_strict else Spent(1e-9, 1, 0.0, 1)
        taken, limits, times = used.plus(self.reserved), self.limits, self.extensions + 1
        today = " today" if self.shared is not None else ""
        if limits.calls is not None and room.calls < 1 + spare_calls:
            span = "of this session " if self.kind == "plugin" and self.shared is None else ""
            return f"{taken.calls} of {limits.calls * times} calls {span}are made ({self.settings['calls']})"
        if limits.tokens is not None and room.tokens < most.tokens:
            next_one = f", and the next call may take {most.tokens:,}" if self.is_strict else ""
            most_of_all = f"{limits.tokens * times:,} tokens are used{today}{next_one}"
            return f"{taken.tokens:,} of {most_of_all} ({self.settings['tokens']})"
        if limits.usd is not None and room.usd < most.usd:
            next_one = f", and the next call may cost ${most.usd:.4f}" if self.is_strict else ""
            return f"${taken.usd:.4f} of ${limits.usd * times:.4f} are spent{today}{next_one} ({self.settings['usd']})"
        if limits.minutes is not None and room.seconds <= 0:
            return f"its {limits.minutes * times:g} minutes are over ({self.settings['minutes']})"
        return ""


class Reservation:
    """The room that a call holds until it has ended."""

    def __init__(self, budgets: Budgets, accounts: Sequence[Account], bound: CallBound, warning: str) -> None:
        self._budgets = budgets
        self.accounts = accounts
        self.bound = bound
        #: What is to be said to the user, where a limit only warns.
        self.warning = warning
        self._calls = 1
        self._held = True

    def add(self, request_id: str, usage: Usage | None, seconds: float, answer_chars: int = 0) -> None:
        """Count what one attempt took. Without a count of the server, the request is estimated."""
        tokens = usage.total_tokens if usage is not None else 0
        if usage is None and answer_chars:
            tokens = self.bound.prompt_tokens + answer_chars // 4
        spent = Spent((usage.cost_usd if usage else None) or 0.0, tokens, seconds, self._calls)
        self._calls = 0
        with self._budgets.lock:
            for account in self.accounts:
                if account.shared is not None and request_id:
                    account.unwritten[request_id] = spent._replace(calls=1)
                else:
                    account.spent = account.spent.plus(spent)

    def close(self) -> None:
        """Give back what was reserved."""
        with self._budgets.lock:
            if self._held:
                self._held = False
                for account in self.accounts:
                    account.reserved = account.reserved.minus(self.bound.spent())


class BudgetLine(NamedTuple):
    """A budget for ``/budget``: whose it is, what is used, and the limits."""

    whose: str
    used: Spent
    account: Account


class Budgets:
    """The budgets of a process. Thread-safe."""

    def __init__(self, store: Store, settings: BudgetsConfig, responders: Responders | None = None) -> None:
        self._store = store
        self._settings = settings
        self._responders = responders
        self.lock = threading.RLock()
        self._accounts: dict[tuple[str, str], Account] = {}
        #: The budgets that a running session is charged to, and the session that a person can be asked in.
        self._chains: dict[str, tuple[list[Account], str]] = {}
        self._unpriced: set[str] = set()

    # -- whose calls they are -----------------------------------------------------------------------------------

    def enter(self, scope: Scope, parent_id: str = "") -> None:
        """A turn begins. What a child spends is charged to everything its parent is charged to."""
        session_id = scope.session_id
        with self.lock:
            above, root = self._chains.get(parent_id, ([], session_id)) if parent_id else ([], session_id)
            if parent_id:
                own = [self._account("child", session_id, lambda: spent_in_session(self._store, session_id))]
            else:
                turn = lambda: spent_in_turn(self._store, session_id, scope.turn_id)  # noqa: E731
                own = [
                    self._account("turn", scope.turn_id, turn),
                    self._account("session", session_id, lambda: spent_in_session(self._store, session_id)),
                ]
            self._chains[session_id] = ([account for account in (*above, *own) if account is not None], root)

    def leave(self, session_id: str, turn_id: str) -> None:
        """The turn is over."""
        with self.lock:
            self._chains.pop(session_id, None)
            self._accounts.pop(("turn", turn_id), None)

    def _charged(self, scope: Scope | None, extra: Sequence[Account]) -> list[Account]:
        session_id = scope.session_id if scope is not None else ""
        chain, _ = self._chains.get(session_id, ([], ""))
        found: list[Account | None] = [*chain]
        if not chain and session_id:
            found.append(self._account("session", session_id, lambda: spent_in_session(self._store, session_id)))
        found.append(self._account("day", "", None))
        principal = scope.principal if scope is not None else ""
        if principal:
            found.append(self._account("principal", principal, None))
        return [account for account in (*found, *extra) if account is not None]

    def _account(self, kind: Kind, whose: str, recorded: Callable[[], Spent] | None) -> Account | None:
        """The budget of that kind, made when it is first needed; ``None`` when it has no limits."""
        known = self._accounts.get((kind, whose))
        if known is not None:
            return known
        limits: BudgetLimitsConfig = getattr(self._settings, kind)
        setting = f"budgets.{kind}"
        if kind == "principal" and whose in self._settings.principals:
            limits, setting = self._settings.principals[whose], f"budgets.principals.{whose}"
        if not limits.is_set:
            return None
        made = Account(kind, whose, limits, _settings(setting))
        if recorded is not None:
            made.spent = recorded()
        elif kind == "principal":
            made.shared = lambda own: spent_today(self._store, principal=whose, own=own)
        elif kind == "day":
            made.shared = lambda own: spent_today(self._store, own=own)
        self._accounts[kind, whose] = made
        return made

    def plugin_accounts(
        self, plugin: str, session_id: str, calls_per_session: int | None, today: BudgetLimitsConfig, setting: str
    ) -> list[Account]:
        """The budgets of a plugin: those of its own settings, and the one that every plugin has."""
        accounts: list[Account] = []
        with self.lock:
            if calls_per_session is not None:
                key = ("plugin session", f"{plugin} {session_id}")
                if key not in self._accounts:
                    made = calls_in_session(self._store, plugin, session_id)
                    limits = BudgetLimitsConfig(calls=calls_per_session)
                    names = {"calls": f"{setting}.max_calls_per_session"}
                    self._accounts[key] = Account("plugin", plugin, limits, names, spent=Spent(calls=made))
                self._accounts[key].limits = BudgetLimitsConfig(calls=calls_per_session)
                accounts.append(self._accounts[key])
            own_and_common = [(today, setting, False), (self._settings.plugin, "budgets.plugin", True)]
            for limits, name, is_strict in own_and_common:
                if not limits.is_set:
                    continue
                account = self._accounts.get((name, plugin))
                if account is None:
                    names = _settings(name)
                    if not is_strict:
                        names = {"tokens": f"{name}.max_tokens_per_day", "usd": f"{name}.max_cost_usd_per_day"}
                    account = Account("plugin", plugin, limits, names, is_strict=is_strict)
                    account.shared = lambda own: spent_today(self._store, plugin=plugin, own=own)
                    self._accounts[name, plugin] = account
                account.limits = limits  # plugins' settings are read anew for each call
                accounts.append(account)
        return accounts

    def for_call(self, scope: Scope, *, spare_calls: int = 0, allow_less: bool = False) -> CallBudget:
        """The budgets of one call, for the attempts at it."""
        return CallBudget(self, scope, spare_calls, allow_less)

    # -- checks -------------------------------------------------------------------------------------------------

    def reserve(
        self,
        scope: Scope | None,
        bound: CallBound,
        *,
        extra: Sequence[Account] = (),
        spare_calls: int = 0,
        allow_less: bool = False,
    ) -> Reservation:
        """Hold the room for a call. Raises ``BudgetExceeded`` when it does not fit into each budget.

        ``spare_calls`` have to be left behind it; with ``allow_less`` a shorter answer will do, as the reservation's
        bound says.
        """
        while True:
            with self.lock:
                accounts = self._charged(scope, extra)
                amounts = [(account, account.used()) for account in accounts]
                if allow_less:
                    bound = self._shorter(amounts, bound)
                refusals = [(one, one.obstacle(used, bound, spare_calls)) for one, used in amounts]
                refused = next(((one, why) for one, why in refusals if why), None)
                if refused is None or self._settings.on_limit == "warn":
                    for account in accounts:
                        account.reserved = account.reserved.plus(bound.spent())
                    return Reservation(self, accounts, bound, self._warning(refused))
            account, why = refused
            line = f"the budget of {_WHOSE[account.kind]} is used up: {why}"
            # An answer that is as short as it has to be is not asked about: the person has just said no.
            if allow_less or self._settings.on_limit != "ask" or not self._may_go_on(scope, line):
                raise BudgetExceeded(line)
            with self.lock:
                account.extensions += 1

    def _shorter(self, amounts: Sequence[tuple[Account, Spent]], bound: CallBound) -> CallBound:
        """The bound with an answer that fits, where a worthwhile one does."""
        rooms = [account.room(used) for account, used in amounts if account.is_strict]
        answer = min((bound.answer_within(room) for room in rooms), default=bound.answer_tokens)
        return bound._replace(answer_tokens=answer) if answer >= LEAST_ANSWER_TOKENS else bound

    def _warning(self, refused: tuple[Account, str] | None) -> str:
        if refused is None or refused[0].has_warned:
            return ""
        account, why = refused
        account.has_warned = True
        line = f"the budget of {_WHOSE[account.kind]} is used up: {why}"
        log.warning("%s", line)
        return line

    def _may_go_on(self, scope: Scope | None, line: str) -> bool:
        """Ask the person at the session, or at the one that delegated to it, if there is one."""
        if scope is None or self._responders is None:
            return False
        root = self._chains.get(scope.session_id, ([], scope.session_id))[1]
        responder = self._responders.get(root)
        if responder is None:
            return False
        try:
            question = f"{line[0].upper()}{line[1:]}. Continue with as much again?"
            answer = responder.answer(question, [CONTINUE, STOP], scope.interrupt)
        except TurnSuspended:
            return False  # the answer would come later, and no call is worth that wait
        return (answer or "").strip().lower() in ("continue", "yes", "y", "1")

    def bound_of(self, endpoint: Endpoint, request: dict[str, Any]) -> CallBound:
        """The upper bound of a request: its prompt, generously counted, and its longest answer."""
        messages: Any = request.get("messages") or request.get("input") or []
        tokens = estimate(messages) + tools_tokens(request.get("tools") or [])
        tokens += estimate([{"content": str(request.get(name) or "")} for name in ("system", "instructions")])
        answer = next((request[name] for name in OUTPUT_LIMITS if isinstance(request.get(name), int)), ANSWER_TOKENS)
        return CallBound(tokens * 4 // 3, answer, self._rates(endpoint))

    def _rates(self, endpoint: Endpoint) -> Rates | None:
        known = known_model(endpoint)
        rates = known.rates_at(time.gmtime()) if known is not None else None
        is_public = endpoint.base_url.startswith("https://")
        if rates is None and is_public and self._limits_dollars and endpoint.model not in self._unpriced:
            self._unpriced.add(endpoint.model)
            log.warning("the price of %s is not known: limits in dollars do not hold for it", endpoint.model)
        return rates

    @property
    def _limits_dollars(self) -> bool:
        settings = self._settings
        kinds = (settings.turn, settings.session, settings.day, settings.child, settings.plugin, settings.principal)
        return any(limits.usd is not None for limits in kinds)

    # -- for people ---------------------------------------------------------------------------------------------

    def lines(self, scope: Scope) -> Iterator[BudgetLine]:
        """The budgets that calls of a session are charged to now."""
        with self.lock:
            for account in self._charged(scope, ()):
                yield BudgetLine(_WHOSE[account.kind], account.used(), account)


class CallBudget(NamedTuple):
    """The budgets that one call is charged to."""

    budgets: Budgets
    scope: Scope
    #: Calls that have to be left behind this one.
    spare_calls: int = 0
    #: Whether a shorter answer will do.
    allow_less: bool = False

    def reserve(self, attempt: Attempt) -> Reservation:
        """Hold the room for an attempt, and shorten its answer where only that fits."""
        bound = self.budgets.bound_of(attempt.endpoint, attempt.request)
        name = _limit_field(attempt.endpoint, attempt.request)
        held = self.budgets.reserve(
            self.scope, bound, spare_calls=self.spare_calls, allow_less=self.allow_less and bool(name)
        )
        if held.bound.answer_tokens < bound.answer_tokens:
            attempt.request = {**attempt.request, name: held.bound.answer_tokens}
        return held


def _settings(section: str) -> dict[str, str]:
    return {name: f"{section}.{name}" for name in ("usd", "tokens", "minutes", "calls")}


def _limit_field(endpoint: Endpoint, request: dict[str, Any]) -> str:
    given = next((name for name in OUTPUT_LIMITS if name in request), "")
    return given or _LIMIT_FIELDS.get(endpoint.api_mode, endpoint.quirks.max_tokens_field)


def _left(limit: float | None, taken: float, times: int) -> float:
    return 1e15 if limit is None else limit * times - taken
