"""The ledger of plugin model calls: records them in the background and enforces budgets before they start."""

from __future__ import annotations

import logging
import threading
import time

from hermes.agent.workers import Workers
from hermes.contract.llm import PluginLlmBudgetError
from hermes.errors import HermesError, JournalError
from hermes.journal.steps import ModelCallRow, record_plugin_calls
from hermes.journal.store import Store
from hermes.journal.usage.plugins import calls_in_session, spent_today
from hermes.plugins.llm.trust import Budget, key_of

log = logging.getLogger("hermes.plugins")

#: How long rows are gathered before they are written: one commit for a row of calls, instead of one each.
_GATHER_SECONDS = 0.05

_Row = tuple[str, str, ModelCallRow]


class PluginLedger:
    """The recorded calls and budgets of all plugins of a process. Thread-safe.

    Rows are written by one thread at a time, as many at once as have come together, so that neither a caller nor an
    event loop waits for the disk. What a process leaves behind when it is killed may lack the last of them.
    """

    def __init__(self, store: Store, workers: Workers) -> None:
        self._store = store
        self._workers = workers
        self._waiting: list[_Row] = []
        self._is_writing = False
        self._is_closed = False
        self._queue_lock = threading.Lock()
        self._disk_lock = threading.Lock()
        self._budget_lock = threading.Lock()
        #: The calls by plugin and session, of plugins with a limit. A call counts from its beginning.
        self._calls_made: dict[tuple[str, str], int] = {}

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

    def open(self, plugin: str, session_id: str, budget: Budget) -> None:
        """Let a call begin. Raises ``PluginLlmBudgetError`` when the budget is spent, ``HermesError`` after ``close``.

        Tokens and dollars are known only after a call: one that begins below its limit may end above it.
        """
        account = (plugin, session_id)
        if self._is_closed or self._workers.is_closed:
            raise HermesError(f"plugin {plugin!r} may ask no model any more: the host is closed")
        with self._budget_lock:
            if budget.is_limited:
                self.flush()
                self._check_calls(account, budget.max_calls_per_session)
                self._check_day(plugin, budget)
            if account in self._calls_made:
                self._calls_made[account] += 1

    def _check_calls(self, account: tuple[str, str], most: int | None) -> None:
        if most is None:
            return
        # No other process runs the session, so the recorded calls are read once.
        if account not in self._calls_made:
            self._calls_made[account] = calls_in_session(self._store, *account)
        made = self._calls_made[account]
        if made >= most:
            raise _spent(account[0], "max_calls_per_session", f"{made} of {most} calls of this session are made")

    def _check_day(self, plugin: str, budget: Budget) -> None:
        most_tokens, most_dollars = budget.max_tokens_per_day, budget.max_cost_usd_per_day
        if most_tokens is None and most_dollars is None:
            return
        tokens, dollars = spent_today(self._store, plugin)
        if most_tokens is not None and tokens >= most_tokens:
            raise _spent(plugin, "max_tokens_per_day", f"{tokens:,} of {most_tokens:,} tokens are used today")
        if most_dollars is not None and dollars >= most_dollars:
            raise _spent(plugin, "max_cost_usd_per_day", f"${dollars:.4f} of ${most_dollars:.4f} are spent today")


def _spent(plugin: str, setting: str, reason: str) -> PluginLlmBudgetError:
    return PluginLlmBudgetError(f"plugin {plugin!r} may ask no model now: {reason} ({key_of(plugin, setting)})")
