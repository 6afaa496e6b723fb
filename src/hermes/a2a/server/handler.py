"""Every method of the protocol, for every transport.

The SDK's own handler moves each event through four queues and as many tasks, which costs more than the rest of a turn,
and needs its traps fenced in; what is left to do is little.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar, cast
from uuid import uuid4

from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import RequestHandler
from a2a.server.tasks import PushNotificationSender, TaskStore
from a2a.server.tasks.push_notification_sender import PushNotificationEvent
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.input_mode_validator import validate_input_modes
from a2a.utils.task import apply_history_length, validate_history_length, validate_page_size
from google.protobuf.message import Message as Request

from hermes.a2a.server.required import check_required
from hermes.a2a.server.runner import TurnExecutor
from hermes.a2a.server.store.contexts import mark_new_context
from hermes.a2a.server.store.tasks import TERMINAL
from hermes.a2a.server.store.webhooks import SqlitePushConfigStore
from hermes.a2a.server.task import LiveTask, Watcher

log = logging.getLogger("hermes.a2a")

F = TypeVar("F", bound=Callable[..., Any])
#: Whether a webhook may be called at that address.
UrlCheck = Callable[[str], Awaitable[bool]]

_MOST_REFERENCES = 10


def _guarded(method: F) -> F:
    """Check what is required. What goes wrong is told by its class alone: the SDK would put its words on the wire."""

    @functools.wraps(method)
    async def run(self: Requests, params: Request, context: ServerCallContext) -> Any:
        check_required(params)
        try:
            return await method(self, params, context)
        except A2AError:
            raise
        except Exception as error:
            raise _hidden(error) from None

    return cast("F", run)


def _guarded_stream(method: F) -> F:
    """The same for methods that stream."""

    @functools.wraps(method)
    async def run(self: Requests, params: Request, context: ServerCallContext) -> AsyncGenerator[Event]:
        check_required(params)
        stream: AsyncGenerator[Event] = method(self, params, context)
        try:
            async for event in stream:
                yield event
        except A2AError:
            raise
        except Exception as error:
            raise _hidden(error) from None
        finally:
            await stream.aclose()

    return cast("F", run)


def _hidden(error: Exception) -> InternalError:
    log.error("a request failed", exc_info=error)
    return InternalError(message=f"Agent error: {type(error).__name__}")


class Requests(RequestHandler):
    """Answers requests from the stores, and has the agent work on tasks."""

    def __init__(
        self,
        turns: TurnExecutor,
        tasks: TaskStore,
        card: AgentCard,
        extended_card: AgentCard,
        *,
        webhooks: SqlitePushConfigStore,
        push: PushNotificationSender | None = None,
        may_push_to: UrlCheck | None = None,
    ) -> None:
        self._turns = turns
        self._tasks = tasks
        self._card = card
        self._extended_card = extended_card
        self._webhooks = webhooks
        self._push = push
        self._may_push_to = may_push_to
        self._live: dict[str, LiveTask] = {}

    async def aclose(self) -> None:
        """Let go of all work that is still under way."""
        runs = [live.run for live in self._live.values() if live.run is not None]
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    # -- tasks --------------------------------------------------------------------------------------------------

    @_guarded
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        validate_history_length(params)
        return apply_history_length(await self._known(params.id, context), params)

    @_guarded
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        validate_history_length(params)
        if params.HasField("page_size"):
            validate_page_size(params.page_size)
        page = await self._tasks.list(params, context)
        for task in page.tasks:
            if not params.include_artifacts:
                task.ClearField("artifacts")
            shortened = apply_history_length(task, params)
            if shortened is not task:
                task.CopyFrom(shortened)
        return page

    @_guarded
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        known = await self._known(params.id, context)
        if known.status.state in TERMINAL:
            raise TaskNotCancelableError
        live = self._live_task(known, context)
        await self._turns.cancel(_request(live, context), live)
        if live.run is not None:
            live.run.cancel()
        await self._turns.release(params.id)
        self._forget(live)
        if live.task.status.state != TaskState.TASK_STATE_CANCELED:
            raise TaskNotCancelableError  # it has just come to its end
        return live.snapshot()

    # -- messages -----------------------------------------------------------------------------------------------

    @_guarded
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task:
        live = await self._deliver(params, context)
        if not params.configuration.return_immediately:
            await live.wait_for_rest()
        return apply_history_length(live.snapshot(), params.configuration)

    @_guarded_stream
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        live = await self._deliver(params, context)
        async for event in self._watch(live, Watcher(stays=False), params):
            yield event

    @_guarded_stream
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event]:
        known = await self._known(params.id, context)
        _refuse_if_over(known)
        async for event in self._watch(self._live_task(known, context), Watcher(stays=True), None):
            yield event

    async def _watch(
        self, live: LiveTask, watcher: Watcher, params: SendMessageRequest | None
    ) -> AsyncGenerator[Event]:
        """The task as it is now, then whatever happens to it."""
        live.watchers.add(watcher)
        try:
            task = live.snapshot()
            yield task if params is None else apply_history_length(task, params.configuration)
            async for event in watcher.events():
                yield event
        finally:
            live.watchers.discard(watcher)
            self._forget(live)

    async def _deliver(self, params: SendMessageRequest, context: ServerCallContext) -> LiveTask:
        """Begin a task with the message, or give it to the task it names; the work goes on by itself."""
        validate_history_length(params.configuration)
        validate_input_modes(params.message, self._card)
        message = params.message
        if message.task_id:
            live = await self._addressed(message, context)
        else:
            live = self._begin(message, context)
        if params.configuration.HasField("task_push_notification_config"):
            await self._add_webhook(live.task.id, params.configuration.task_push_notification_config, context)
        related = [
            task
            for reference in list(message.reference_task_ids)[:_MOST_REFERENCES]
            if (task := await self._tasks.get(reference, context)) is not None
        ]
        _refuse_if_at_work(live)  # again: another message may have come first meanwhile
        if message.task_id == live.task.id and live.task.history:
            await live.take(message)
        else:
            message.task_id, message.context_id = live.task.id, live.task.context_id
            live.task.history.append(message)
            await live.begin()
        self._live[live.task.id] = live
        live.start(self._work(live, _request(live, context, params, related)))
        return live

    async def _work(self, live: LiveTask, request: RequestContext) -> None:
        try:
            await self._turns.execute(request, live)
        finally:
            live.rest()
            self._forget(live)

    def _begin(self, message: Message, context: ServerCallContext) -> LiveTask:
        mark_new_context(context, is_new=not message.context_id)
        task = Task(
            id=str(uuid4()),
            context_id=message.context_id or str(uuid4()),
            status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
        )
        task.status.timestamp.GetCurrentTime()
        return LiveTask(task, context, self._tasks, self._notify)

    async def _addressed(self, message: Message, context: ServerCallContext) -> LiveTask:
        """The task that a message names, if it can take one now."""
        known = await self._known(message.task_id, context)
        if message.context_id and message.context_id != known.context_id:
            raise InvalidParamsError(message=f"task {known.id} belongs to the context {known.context_id}")
        _refuse_if_over(known)
        live = self._live_task(known, context)
        _refuse_if_at_work(live)
        message.context_id = known.context_id
        return live

    # -- webhooks -----------------------------------------------------------------------------------------------

    @_guarded
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        self._need_push()
        await self._known(params.task_id, context)
        return await self._add_webhook(params.task_id, params, context)

    @_guarded
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        self._need_push()
        await self._known(params.task_id, context)
        for config in await self._webhooks.get_info(params.task_id, context):
            if config.id == params.id:
                return config
        raise TaskNotFoundError

    @_guarded
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        self._need_push()
        await self._known(params.task_id, context)
        configs = await self._webhooks.get_info(params.task_id, context)
        return ListTaskPushNotificationConfigsResponse(configs=configs)

    @_guarded
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        self._need_push()
        await self._known(params.task_id, context)
        await self._webhooks.delete_info(params.task_id, context, params.id)

    async def _add_webhook(
        self, task_id: str, config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        self._need_push()
        if self._may_push_to is not None and not await self._may_push_to(config.url):
            raise InvalidParamsError(message="Invalid push notification URL")
        return await self._webhooks.set_info(task_id, config, context)

    async def _notify(self, task_id: str, event: PushNotificationEvent) -> None:
        if self._push is not None and self._webhooks.has(task_id):
            await self._push.send_notification(task_id, event)

    def _need_push(self) -> None:
        if self._push is None:
            raise PushNotificationNotSupportedError

    # -- the card -----------------------------------------------------------------------------------------------

    @_guarded
    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        return self._extended_card

    # -- inside -------------------------------------------------------------------------------------------------

    async def _known(self, task_id: str, context: ServerCallContext) -> Task:
        task = await self._tasks.get(task_id, context)
        if task is None:
            raise TaskNotFoundError
        return task

    def _live_task(self, known: Task, context: ServerCallContext) -> LiveTask:
        """The task as it lives here. Whoever asks owns it: they could not have read it otherwise."""
        live = self._live.get(known.id) or LiveTask(known, context, self._tasks, self._notify)
        self._live[known.id] = live
        return live

    def _forget(self, live: LiveTask) -> None:
        if live.is_forgotten:
            self._live.pop(live.task.id, None)


def _refuse_if_over(task: Task) -> None:
    if task.status.state in TERMINAL:
        raise UnsupportedOperationError(
            message=f"task {task.id} is in terminal state {TaskState.Name(task.status.state)}"
        )


def _refuse_if_at_work(live: LiveTask) -> None:
    if live.run is not None:
        raise UnsupportedOperationError(message=f"task {live.task.id} is at work; wait for it, or cancel it")


def _request(
    live: LiveTask,
    context: ServerCallContext,
    params: SendMessageRequest | None = None,
    related: list[Task] | None = None,
) -> RequestContext:
    return RequestContext(
        call_context=context,
        request=params,
        task_id=live.task.id,
        context_id=live.task.context_id,
        task=live.task,
        related_tasks=related,
    )
