"""The engine (DBOS) of a worker: takes turns from the queues of PostgreSQL and calls a function for each.

It decides who runs a turn; the journal decides what was done. One workflow is one hand-over of one turn.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from hermes.dispatch.cluster.handover import APPLICATION, WORKFLOW, app_version
from hermes.dispatch.cluster.pace import QueuePace
from hermes.dispatch.port import CHILDREN
from hermes.journal.turns.lifecycle import LOOP_VERSION

if TYPE_CHECKING:
    from dbos import DBOS

#: Threads of the engine beside those that run turns.
_SPARE_THREADS = 8
_POOL_SIZE = 5
#: How much less often the queue of children is looked at.
_CHILDREN_FACTOR = 2.5
#: The engine's own limit: the journal counts attempts, and ends a turn long before this.
_MAX_DISPATCHES = 1_000_000


class EngineSettings(msgspec.Struct, frozen=True):
    """The settings of one worker's engine."""

    url: str
    executor_id: str
    #: The name of its connections.
    application: str
    #: Turns that run at the same time, by queue.
    slots: Mapping[str, int]
    poll_seconds: float
    loop_version: int = LOOP_VERSION


class Engine:
    """DBOS in this process, of which there can be one.

    ``run`` gets the id of the hand-over and that of the turn. ``has_turns`` says whether anything waits in a queue.
    """

    def __init__(
        self, settings: EngineSettings, run: Callable[[str, str], str], has_turns: Callable[[str, str], bool]
    ) -> None:
        self._settings = settings
        self._run = run
        self._slots = dict(settings.slots)
        self._version = app_version(settings.loop_version)
        self._paces = {
            name: QueuePace(self._poll_seconds(name), functools.partial(has_turns, name, self._version))
            for name in self._slots
        }
        self._dbos: type[DBOS] | None = None

    def launch(self) -> None:
        """Connect, bring the tables of the engine up to date and begin to take turns."""
        from dbos import DBOS, DBOSPortableJSONSerializer

        _quiet_logs()
        settings = self._settings
        instance = DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": settings.url,
                "executor_id": settings.executor_id,
                "application_version": self._version,
                "serializer": DBOSPortableJSONSerializer(),
                "enable_otlp": False,
                "log_level": "WARNING",
                "sys_db_pool_size": _POOL_SIZE,
                "max_executor_threads": sum(self._slots.values()) + _SPARE_THREADS,
                "use_listen_notify": False,
                "scheduler_polling_interval_sec": 3_600.0,
                "db_engine_kwargs": {"connect_args": {"application_name": settings.application}},
            }
        )
        paces, run = self._paces.values(), self._run

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=_MAX_DISPATCHES)
        def turn(turn_id: str) -> str:  # pyright: ignore[reportUnusedFunction]
            workflow = DBOS.workflow_id or ""
            for pace in paces:
                pace.began(workflow)
            try:
                return run(workflow, turn_id)
            finally:
                for pace in paces:
                    pace.ended()

        DBOS.listen_queues(list(self._slots))
        DBOS.launch()
        self._dbos = DBOS
        self._use_own_slots(instance)
        self._use_own_pace(instance)
        for name, slots in self._slots.items():
            DBOS.register_queue(
                name,
                worker_concurrency=slots,
                polling_interval_sec=self._poll_seconds(name),
                on_conflict="always_update",
            )

    def _use_own_slots(self, instance: DBOS) -> None:
        """Each worker has its own number of slots and its own pace.

        The engine stores one number for all workers of a queue and reads it before each look at the queue. Ours are
        put in place where it reads them, which also saves that reading.
        """
        database: Any = instance._sys_db  # pyright: ignore[reportPrivateUsage]
        read = database.get_queue
        known: dict[str, Any] = {}

        def get_queue(name: str, *arguments: Any, **options: Any) -> Any:
            if name not in self._slots:
                return read(name, *arguments, **options)
            queue = known.get(name)
            if queue is None:
                queue = read(name, *arguments, **options)
                if queue is None:
                    return None
                known[name] = queue
            queue._worker_concurrency = self._slots[name]
            queue._polling_interval_sec = 0.0  # it waits before it takes turns
            return queue

        database.get_queue = get_queue

    def _use_own_pace(self, instance: DBOS) -> None:
        """The engine takes turns when there are some: its own look at an empty queue costs as much as a taken turn.

        What we never use is not looked for either: deadlines and delays of workflows.
        """
        database: Any = instance._sys_db  # pyright: ignore[reportPrivateUsage]
        active: Any = instance._active_workflows_set  # pyright: ignore[reportPrivateUsage]
        take = database.start_queued_workflows

        def start_queued_workflows(
            queue: Any, executor: str, version: str, partition: str | None, _running: int, *rest: Any, **options: Any
        ) -> Any:
            pace = self._paces.get(queue.name)
            if pace is None:
                return take(queue, executor, version, partition, _running, *rest, **options)
            if not pace.wait(lambda: active.count_for_queue(queue.name), self._slots[queue.name]):
                return [], None
            running = active.count_for_queue(queue.name) + pace.starting
            queue._worker_concurrency = self._slots[queue.name]
            taken: tuple[list[str], Any] = take(queue, executor, version, partition, running, *rest, **options)
            pace.took(taken[0])
            return taken

        def cancel_timed_out_workflows(_limit: int) -> list[str]:
            return []

        def transition_delayed_workflows() -> None:
            return

        database.start_queued_workflows = start_queued_workflows
        database.cancel_timed_out_workflows = cancel_timed_out_workflows
        database.transition_delayed_workflows = transition_delayed_workflows

    def _poll_seconds(self, queue: str) -> float:
        """Looking costs CPU, and few turns come from other turns: the queue of those is looked at less often."""
        return self._settings.poll_seconds * (_CHILDREN_FACTOR if queue.startswith(CHILDREN) else 1)

    def wake(self, queue: str = "") -> None:
        """Look at a queue soon, without waiting for the next time to; empty is every queue."""
        for name, pace in self._paces.items():
            if not queue or name == queue:
                pace.wake()

    def stop_taking(self) -> None:
        """Take no more turns; those that run come to their end."""
        self._slots = dict.fromkeys(self._slots, 0)

    def resume(self, workflow_ids: Iterable[str], queue: str) -> None:
        """Put the turns of a worker that died back into their queue."""
        assert self._dbos is not None
        self._dbos.resume_workflows(list(workflow_ids), queue_name=queue)

    def delete(self, workflow_ids: list[str]) -> None:
        """Forget workflows that are over: the journal has their turns."""
        assert self._dbos is not None
        self._dbos.delete_workflows(workflow_ids)

    def close(self) -> None:
        """End the engine's threads and connections."""
        for pace in self._paces.values():
            pace.close()
        dbos, self._dbos = self._dbos, None
        if dbos is not None:
            dbos.destroy(destroy_registry=True)


def _quiet_logs() -> None:
    """The engine's log belongs into ours, without its notes about every start."""
    logger = logging.getLogger("dbos")
    logger.handlers[:] = [_EngineLog()]
    logger.setLevel(logging.WARNING)
    logger.propagate = False


class _EngineLog(logging.Handler):
    """Sends the engine's warnings to our log, which redacts secrets."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger("hermes.cluster.engine").handle(record)
