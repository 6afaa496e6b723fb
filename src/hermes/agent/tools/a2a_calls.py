"""The tools that call other agents: one connection for each call, closed when the call is cancelled."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from hermes.agent.llm.models import Models
from hermes.base.errors import Interrupted
from hermes.base.scope import Interrupt
from hermes.tools.peers.addresses import find_peer
from hermes.tools.peers.failures import PeerError, missing_sdk
from hermes.tools.registry import Args, ToolContext
from hermes.tools.results import tool_error, tool_result
from hermes.tools.terminal.output import shorten

if TYPE_CHECKING:
    from a2a.types import AgentCard

    from hermes.tools.peers.client import PeerClient
    from hermes.tools.peers.reply import PeerReply

#: Words about its work that the model is shown of a long answer.
_NOTES = 20
_LONGEST_NOTE = 200
_LONGEST_DESCRIPTION = 500
_MOST_SKILLS = 50

Fields = dict[str, Any]


def run_discover(args: Args, context: ToolContext, models: Models) -> str:
    """What an agent can do, or which agents there are."""
    if not str(args.get("agent") or "").strip():
        agents = models.config.a2a.agents
        return tool_result(agents=[{"agent": name, "url": agent.url} for name, agent in agents.items()])

    async def work(client: PeerClient) -> Fields:
        return _described(client.card)

    return _call(args, context, models, work)


def run_send(args: Args, context: ToolContext, models: Models) -> str:
    """Send a message and wait for the answer."""
    message = str(args["message"])
    if not message.strip():
        return tool_error("message is empty; say what the agent is to do")
    notes: deque[str] = deque(maxlen=_NOTES)  # an agent may say a lot

    async def work(client: PeerClient) -> Fields:
        reply = await client.send(
            message,
            context_id=str(args.get("context_id") or ""),
            on_update=lambda update: notes.append(update.status[:_LONGEST_NOTE]) if update.status else None,
        )
        return _answered(reply, context) | ({"progress": list(notes)} if notes else {})

    return _call(args, context, models, work)


def run_answer(args: Args, context: ToolContext, models: Models) -> str:
    """Answer what a task waits for."""

    async def work(client: PeerClient) -> Fields:
        return _answered(await client.answer(str(args["task_id"]), str(args["answer"])), context)

    return _call(args, context, models, work)


def run_cancel(args: Args, context: ToolContext, models: Models) -> str:
    """Stop a task."""

    async def work(client: PeerClient) -> Fields:
        return _answered(await client.cancel(str(args["task_id"])), context)

    return _call(args, context, models, work)


def _call(args: Args, context: ToolContext, models: Models, work: Callable[[PeerClient], Awaitable[Fields]]) -> str:
    """The result of the work with a connection to the agent that the arguments name."""
    config = models.config
    try:
        peer = find_peer(config.a2a, os.environ, str(args["agent"]))
        models.redactor.add_secret(peer.token)
        try:
            from hermes.tools.peers.client import PeerCallOptions, connect_peer
        except ModuleNotFoundError as error:
            raise missing_sdk(error) from None
        options = PeerCallOptions(
            timeout=config.a2a.call_timeout,
            max_hops=config.a2a.max_hops,
            allow_private=config.security.allow_private_urls,
        )

        async def connected() -> Fields:
            async with connect_peer(peer, options) as client:
                return await work(client)

        result = tool_result(agent=peer.name, **_until(connected, context.scope.interrupt))
    except PeerError as error:
        result = tool_error(str(error))
    # An agent may echo what it was sent, its token too.
    return models.redactor.redact(result) if models.redactor.suspects(result) else result


def _until(work: Callable[[], Awaitable[Fields]], interrupt: Interrupt) -> Fields:
    """Run the work on this thread. Cancelling the interrupt cancels it."""

    async def main() -> Fields:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def stop() -> None:
            loop.call_soon_threadsafe(task.cancel)

        with interrupt.on_cancel(stop):
            return await work()

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        raise Interrupted(interrupt.reason) from None


def _answered(reply: PeerReply, context: ToolContext) -> Fields:
    fields: Fields = {"state": reply.state, "task_id": reply.task_id, "context_id": reply.context_id}
    fields["text"] = shorten(reply.text, context.limits.max_output_chars)
    if reply.status:
        fields["question" if reply.waits else "status"] = shorten(reply.status, context.limits.max_output_chars)
    if reply.question.get("options"):
        fields["options"] = reply.question["options"]
    return fields


def _described(card: AgentCard) -> Fields:
    skills = [
        {"name": skill.name, "description": skill.description[:_LONGEST_DESCRIPTION], "tags": list(skill.tags)}
        for skill in card.skills[:_MOST_SKILLS]
    ]
    return {
        "name": card.name,
        "description": card.description[:_LONGEST_DESCRIPTION],
        "version": card.version,
        "skills": skills,
        "input_modes": list(card.default_input_modes),
        "output_modes": list(card.default_output_modes),
        "needs_token": bool(card.security_requirements),
    }


#: The tools' functions by the second part of their names.
CALLS = {"discover": run_discover, "send": run_send, "answer": run_answer, "cancel": run_cancel}
