"""The ledger of plugin model calls: records them in the background and enforces budgets before they start."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from hermes.agent.llm.models import Models
from hermes.agent.workers import Workers
from hermes.base.config.schema.sections import BudgetLimitsConfig
from hermes.base.errors import BudgetExceeded, HermesError, JournalError
from hermes.contract.llm import PluginLlmBudgetError
from hermes.journal.store.port import Store
from hermes.journal.turns.steps import ModelCallRow, record_plugin_calls
from hermes.plugins.llm.trust import Budget, key_of

if TYPE_CHECKING:
    from hermes.agent.llm.budgets import Reservation
    from hermes.base.scope import Scope
    from hermes.models.endpoint import Endpoint

log = logging.getLogger("hermes.plugins")

#: How long rows are gathered before they are written: one commit for a row of calls, instead of one each.
_GATHER_SECONDS = 0.05

_Row = tuple[str, str, ModelCallRow]


class PluginLedger:
    """The recorded calls and budgets of all plugins of a process. Thread-safe.

    Rows are written by one thread at a time, as many at once as have come together, so that neither a caller nor an
    event loop waits for the disk. What a process leaves behind when it is killed may lack the last of them.
    """

    def __init__(self, models: Models, store: Store, workers: Workers) -> None:
        self._models = models
        self._store = store
        self._workers = workers
        self._waiting: list[_Row] = []
        self._is_writing = False
        self._is_closed = False
        self._queue_lock = threading.Lock()
        self._disk_lock = threading.Lock()

    # -- the record ---------------------------------------------------------------------------------------------

    def record(self, session_id: str, turn_id: str, row: ModelCallRow) -> None:
        """Queue an attempt to be recorded."""
        with self._queue_lock:
            self._waiting.append((session_id, turn_id, row))
            if self._is_writing:
                return
            self._is_writing = True
        self._workers.submit(self._write)

    def flush(self) -> None:
        """Write everything that is queued."""
        with self._disk_lock:
            with self._queue_lock:
                rows, self._waiting = self._waiting, []
            if rows and not self._is_closed:
                record_plugin_calls(self._store, rows)

    def close(self) -> None:
        """Write everything that is queued. Calls that outlive the host are not recorded."""
        try:
            self.flush()
        except JournalError as error:
            log.warning("the model calls of plugins were not recorded: %s", error)
        self._is_closed = True

    def _write(self) -> None:
        while True:
            time.sleep(_GATHER_SECONDS)
            try:
                self.flush()
            except JournalError as error:
                log.warning("the model calls of plugins were not recorded: %s", error)
            with self._queue_lock:
                if not self._waiting:
                    self._is_writing = False
                    return

    # -- budgets ------------------------------------------------------------------------------------------------

    def open(self, call: PluginCharge, budget: Budget) -> Reservation | None:
        """Let a call begin, and hold the room for it in its budgets; ``None`` when nothing limits it.

        Raises ``PluginLlmBudgetError`` when a budget is spent, and ``HermesError`` after ``close``.
        """
        plugin, models = call.plugin, self._models
        if self._is_closed or self._workers.is_closed:
            raise HermesError(f"plugin {plugin!r} may ask no model any more: the host is closed")
        if models.budgets is None:
            if not budget.is_limited:
                return None
            from hermes.agent.llm.budgets import Budgets  # few plugins have a limit

            models.budgets = Budgets(self._store, models.config.budgets)
        budgets, setting = models.budgets, key_of(plugin, "")[:-1]
        today = BudgetLimitsConfig(tokens=budget.max_tokens_per_day, usd=budget.max_cost_usd_per_day)
        if budget.is_limited or models.config.budgets.plugin.is_set:
            self.flush()
        accounts = budgets.plugin_accounts(plugin, call.session_id, budget.max_calls_per_session, today, setting)
        try:
            return budgets.reserve(call.scope, budgets.bound_of(call.endpoint, call.request), extra=accounts)
        except BudgetExceeded as error:
            reason = str(error).partition("is used up: ")[2]
        raise PluginLlmBudgetError(f"plugin {plugin!r} may ask no model now: {reason}")


class PluginCharge(NamedTuple):
    """A plugin's call, as far as budgets are concerned."""

    plugin: str
    session_id: str
    scope: Scope | None
    endpoint: Endpoint
    request: dict[str, Any]
